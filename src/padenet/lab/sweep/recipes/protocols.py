"""The paper's protocols: a function fills in a record for a data set, net, activation and seed.

What the paper leaves open, and the same for all activations: a last batch that is not full is
dropped, images are normalised by the mean and deviation of their own training set. Padé units
differ from the rest in one thing, which docs/stability.md explains: they are stabilised.
"""

from collections.abc import Callable
from dataclasses import replace

from padenet.core import unknown
from padenet.lab.data import DATASETS
from padenet.lab.records.config import UNITS, Config
from padenet.torch import MOST


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


def mnist(base: Config) -> Config:
    """MNIST and Fashion-MNIST: SGD for VGG, Adam for the other nets."""
    return mnist_sgd(base) if base.net.startswith("vgg") else mnist_adam(base)


def paper(base: Config) -> Config:
    """The protocol for the record's data set and net: what is taken unless told otherwise."""
    name = DATASETS[base.dataset].protocol if base.dataset in DATASETS else "mnist"
    return PROTOCOLS[name](base)


PROTOCOLS: dict[str, Callable[[Config], Config]] = {
    "paper": paper,
    "mnist": mnist,
    "mnist-adam": mnist_adam,
    "mnist-sgd": mnist_sgd,
    "cifar": cifar,
    "imagenet": imagenet,
    "digits": digits,
}


def find_protocol(name: str) -> Callable[[Config], Config]:
    if name not in PROTOCOLS:
        raise unknown("protocol", name, PROTOCOLS)
    return PROTOCOLS[name]
