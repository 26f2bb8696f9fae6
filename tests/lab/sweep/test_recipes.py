"""Recipes are the paper's tables under its protocols."""

from collections import Counter
from dataclasses import asdict

import pytest

from padenet.lab.records.config import Config
from padenet.lab.sweep import recipes


@pytest.mark.parametrize(
    "name, runs, activations",
    [
        ("demo", 18, 6),
        ("table2", 260, 13),
        ("table3", 275, 14),
        ("table3-short", 42, 7),
        ("imagenet", 10, 10),
    ],
)
def test_recipes_are_the_tables(name, runs, activations):
    configs = recipes.RECIPES[name]()
    assert len(configs) == len({c.name for c in configs}) == runs
    counts = Counter(c.activation for c in configs)
    assert len(counts) == activations
    assert len(set(counts.values())) == (2 if name == "table3" else 1)  # no Maxout in DenseNet
    for config in configs:  # the activation and what belongs to the units differ, nothing else
        other = next(
            c
            for c in configs
            if (c.dataset, c.net) == (config.dataset, config.net) and c.activation == "relu"
        )
        skipped = ("activation", "seed", "coefficient_lr", "stabilize")
        assert {k: v for k, v in asdict(config).items() if k not in skipped} == {
            k: v for k, v in asdict(other).items() if k not in skipped
        }


def test_the_papers_protocols():
    lenet = recipes.paper(Config(dataset="mnist", net="lenet"))
    assert (lenet.epochs, lenet.batch_size, lenet.optimizer, lenet.lr) == (100, 256, "adam", 0.002)
    vgg = recipes.paper(Config(dataset="mnist", net="vgg"))
    assert (vgg.optimizer, vgg.lr, vgg.momentum, vgg.weight_decay) == ("sgd", 0.01, 0.5, 0.0)
    cifar = recipes.paper(Config(dataset="cifar10", net="vgg8"))
    assert (cifar.epochs, cifar.batch_size, cifar.lr, cifar.momentum) == (400, 64, 0.1, 0.9)
    assert (cifar.lr_decay, cifar.lr_every, cifar.weight_decay) == (0.985, 1, 5e-4)
    assert (cifar.coefficient_lr, cifar.augment) == (0.01, "crop-flip")
    imagenet = recipes.paper(Config(dataset="imagenet", net="mobilenetv2-imagenet"))
    assert (imagenet.epochs, imagenet.lr, imagenet.weight_decay) == (90, 0.1, 1e-4)
    assert imagenet.lr * imagenet.lr_decay ** (89 // imagenet.lr_every) == pytest.approx(0.001)


def test_an_unknown_protocol():
    with pytest.raises(ValueError, match="Did you mean 'mnist-adam'"):
        recipes.find_protocol("mnist-adm")
