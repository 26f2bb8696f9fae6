"""The lists of runs behind the paper's tables. A recipe is a function."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from padenet.lab.records.config import UNITS, Config
from padenet.lab.sweep.recipes.frontier import frontier, starts
from padenet.lab.sweep.recipes.protocols import paper

COMMON = ("relu", "relu6", "lrelu", "rrelu", "elu", "celu", "swish", "prelu")
TABLE2 = (*COMMON, "slaf", "apl", "srelu", *UNITS)
TABLE3 = (*COMMON, "maxout", "mixture", "apl", "srelu", *UNITS)
IMAGENET = (*COMMON, "srelu", "pau")
SEEDS = range(5)


def grid(
    datasets: Iterable[str], nets: Iterable[str], activations: Iterable[str], seeds: Iterable[int]
) -> list[Config]:
    """All combinations under their protocols; whole seeds first, so that a part is a table too."""
    return [
        paper(Config(dataset=d, net=n, activation=a, seed=s))
        for s in seeds
        for d in datasets
        for n in nets
        for a in activations
    ]


def table2() -> list[Config]:
    """MNIST and Fashion-MNIST, 2 nets, 13 activations, 5 seeds. VGG in bf16."""
    runs = grid(["fashion-mnist", "mnist"], ["lenet", "vgg"], TABLE2, SEEDS)
    return [replace(c, precision="bf16") if c.net == "vgg" else c for c in runs]


def table3() -> list[Config]:
    """CIFAR-10, 4 nets, 14 activations, 5 seeds; DenseNet has no Maxout, in the paper neither."""
    nets = ["vgg8", "mobilenetv2", "resnet101", "densenet121"]
    runs = grid(["cifar10"], nets, TABLE3, SEEDS)
    return [c for c in runs if (c.net, c.activation) != ("densenet121", "maxout")]


def table3_short() -> list[Config]:
    """A part of Table 3, shortened: 2 nets, 7 activations, 3 seeds, 20 epochs in place of 400. The
    rate falls as far as it does there; batches of 256, bf16. Some 25 minutes of an H200."""
    activations = ["relu", "lrelu", "rrelu", "swish", "prelu", *UNITS]
    short: dict[str, Any] = {"epochs": 20, "batch_size": 256, "lr_decay": 0.74, "precision": "bf16"}
    nets = "vgg8", "mobilenetv2"
    runs = [c for net in nets for c in grid(["cifar10"], [net], activations, range(3))]
    return [replace(c, **short) for c in runs]


def table_imagenet() -> list[Config]:
    """ImageNet, MobileNetV2, the activations of the paper's table."""
    return grid(["imagenet"], ["mobilenetv2-imagenet"], IMAGENET, [0])


def demo() -> list[Config]:
    """The embedded digits: six activations, 3 seeds. A minute on two cores."""
    activations = ["relu", "lrelu", "prelu", "swish", "pau", "rpau"]
    return grid(["digits"], ["lenet"], activations, range(3))


def stability() -> list[Config]:
    """VGG on Fashion-MNIST, where units diverge: ten seeds, with and without the stabiliser."""
    runs = [
        replace(c, precision="bf16") for c in grid(["fashion-mnist"], ["vgg"], UNITS, range(10))
    ]
    free = [replace(c, stabilize=None, label="free") for c in runs]
    return [c for pair in zip(runs, free, strict=True) for c in pair]


RECIPES: dict[str, Callable[[], list[Config]]] = {
    "demo": demo,
    "table2": table2,
    "table3": table3,
    "table3-short": table3_short,
    "imagenet": table_imagenet,
    "stability": stability,
    "frontier": frontier,
    "starts": starts,
}
