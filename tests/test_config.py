"""Records and recipes."""

import json
from collections import Counter
from dataclasses import asdict

import pytest

from padenet.experiments import recipes
from padenet.experiments.config import Config


@pytest.mark.parametrize(
    "field, value, message",
    [
        ("optimizer", "adm", "Did you mean 'adam'"),
        ("precision", "fp16", "Known: fp32, tf32, bf16"),
        ("augment", "flip", "crop-flip"),
        ("epochs", 0, "epochs=0 must be above 0"),
        ("epochs", 1.5, "whole number"),
        ("lr", -0.1, "lr=-0.1 must be above 0"),
        ("momentum", -1.0, "must not be negative"),
        ("seed", -1, "must not be negative"),
        ("clip_norm", 0.0, "clip_norm=0.0 must be above 0"),
        ("label", "a/b", "letters, digits"),
        ("lr", float("nan"), "above 0"),
    ],
)
def test_a_wrong_value_is_refused_by_name(field, value, message):
    with pytest.raises(ValueError, match=message):
        Config(**{field: value})


def test_json_and_back():
    config = Config(net="vgg", coefficient_lr=0.001, label="slow")
    assert Config.from_dict(json.loads(config.to_json())) == config
    with pytest.raises(ValueError, match="Did you mean 'epochs'"):
        Config.from_dict({"epoch": 3})


def test_names_tell_runs_apart():
    assert Config(seed=3).name == "digits-lenet-pau-s3"
    assert Config(label="lr0.1").name == "digits-lenet-pau-lr0.1-s0"


@pytest.mark.parametrize(
    "name, runs, activations",
    [("demo", 18, 6), ("table2", 260, 13), ("table3", 275, 14), ("imagenet", 10, 10)],
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
        skipped = ("activation", "seed", "coefficient_lr", "coefficient_floor")
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
