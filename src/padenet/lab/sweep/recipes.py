"""The paper's protocols, and the lists of runs behind its tables. A recipe is a function.

A protocol fills in a record for one data set, net, activation and seed; a recipe is a list of such
records. What the paper leaves open, and the same for all activations: a last batch that is not full
is dropped, images are normalised by the mean and deviation of their own training set. Padé units
differ from the rest in one thing, which docs/stability.md explains: they are stabilised.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

from padenet.core.names import unknown
from padenet.lab.records.config import UNITS, Config
from padenet.lab.sweep.frontier import frontier, starts
from padenet.torch.trust import MOST

COMMON = ("relu", "relu6", "lrelu", "rrelu", "elu", "celu", "swish", "prelu")
TABLE2 = (*COMMON, "slaf", "apl", "srelu", *UNITS)
TABLE3 = (*COMMON, "maxout", "mixture", "apl", "srelu", *UNITS)
IMAGENET = (*COMMON, "srelu", "pau")
SEEDS = range(5)


def stabilized(config: Config, coefficient_lr: float | None = None) -> Config:
    """A protocol's record, with what only Padé units have: the stabiliser, and maybe a rate."""
    if config.activation not in UNITS:
        return config
    return replace(config, stabilize=MOST, coefficient_lr=coefficient_lr)


def mnist_adam(base: Config) -> Config:
    """MNIST and Fashion-MNIST: 100 epochs of Adam, batches of 256. The paper's for LeNet."""
    return stabilized(replace(base, epochs=100, batch_size=256, optimizer="adam", lr=0.002))


def mnist_sgd(base: Config) -> Config:
    """MNIST and Fashion-MNIST with SGD, under which VGG trains; the paper names both."""
    return stabilized(
        replace(base, epochs=100, batch_size=256, optimizer="sgd", lr=0.01, momentum=0.5)
    )


def cifar(base: Config) -> Config:
    """CIFAR-10: 400 epochs of SGD, the units' coefficients at a constant rate of their own."""
    record = replace(
        base,
        epochs=400,
        batch_size=64,
        augment="crop-flip",
        optimizer="sgd",
        lr=0.1,
        momentum=0.9,
        weight_decay=5e-4,
        lr_decay=0.985,
    )
    return stabilized(record, 0.01)


def imagenet(base: Config) -> Config:
    """ImageNet: 90 epochs of SGD, the rate divided by ten every 30."""
    record = replace(
        base,
        epochs=90,
        batch_size=256,
        precision="bf16",
        optimizer="sgd",
        lr=0.1,
        momentum=0.9,
        weight_decay=1e-4,
        lr_decay=0.1,
        lr_every=30,
    )
    return stabilized(record)


def digits(base: Config) -> Config:
    """The embedded digits: 20 epochs of Adam, seconds on a CPU."""
    return stabilized(replace(base, epochs=20, batch_size=64, optimizer="adam", lr=0.002))


def paper(base: Config) -> Config:
    """The protocol for the record's data set and net: what is taken unless told otherwise."""
    if base.dataset == "cifar10":
        return cifar(base)
    if base.dataset == "imagenet":
        return imagenet(base)
    if base.dataset == "digits":
        return digits(base)
    return mnist_sgd(base) if base.net.startswith("vgg") else mnist_adam(base)


PROTOCOLS: dict[str, Callable[[Config], Config]] = {
    "paper": paper,
    "mnist-adam": mnist_adam,
    "mnist-sgd": mnist_sgd,
    "cifar": cifar,
    "imagenet": imagenet,
    "digits": digits,
}


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
    short = {"epochs": 20, "batch_size": 256, "lr_decay": 0.74, "precision": "bf16"}
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


def find_protocol(name: str) -> Callable[[Config], Config]:
    if name not in PROTOCOLS:
        raise unknown("protocol", name, PROTOCOLS)
    return PROTOCOLS[name]
