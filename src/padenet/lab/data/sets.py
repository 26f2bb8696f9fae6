"""``load``: a data set by name, as one record."""

from dataclasses import dataclass
from importlib import resources
from typing import Literal, overload

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from padenet.lab.data import cifar, idx, places
from padenet.lab.data.folder import ImageFolder, imagenet_root, open_imagenet
from padenet.lab.data.places import PathLike
from padenet.lab.data.sources import DIGITS, OTHERS, SOURCES

NAMES = (*SOURCES, *OTHERS)
SIDE = 32
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set in memory, 32 × 32 pixels.

    ``mean`` and ``std`` are those of the training pixels in [0, 1], one per channel, taken before
    images were padded or enlarged.
    """

    name: str
    train_images: Tensor  # uint8 (N, C, H, W)
    train_labels: Tensor  # int64 (N,)
    test_images: Tensor
    test_labels: Tensor
    classes: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Folder:
    """A data set too large for memory: images are decoded as they are asked for."""

    name: str
    train: ImageFolder
    test: ImageFolder
    classes: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]


@overload
def load(
    name: Literal["mnist", "fashion-mnist", "cifar10", "digits"],
    data_dir: PathLike | None = ...,
    *,
    verify: bool = ...,
) -> Dataset: ...
@overload
def load(
    name: Literal["imagenet"], data_dir: PathLike | None = ..., *, verify: bool = ...
) -> Folder: ...
@overload
def load(name: str, data_dir: PathLike | None = ..., *, verify: bool = ...) -> Dataset | Folder: ...
def load(name: str, data_dir: PathLike | None = None, *, verify: bool = False) -> Dataset | Folder:
    """The data set of that name: "mnist", "fashion-mnist", "cifar10", "digits" or "imagenet".

    The 28 × 28 images of the MNISTs get a black border of 2 pixels. The 8 × 8 images of digits,
    which come with the package, are enlarged: each pixel becomes 4 × 4 equal ones.

    Args:
        name: One of ``NAMES``.
        data_dir: The directory to look in; by default that of the environment variable
            PADENET_DATA, else ``~/.cache/padenet``.
        verify: Whether to check each file against its published digest first.

    Returns:
        A ``Dataset``, for "imagenet" a ``Folder``.
    """
    if name == "digits":
        return _digits()
    if name == "imagenet":
        if verify:
            raise ValueError("imagenet has no published digests: load it with verify=False.")
        train, test = open_imagenet(places.data_home(data_dir))
        return Folder(name, train, test, train.classes, IMAGENET_MEAN, IMAGENET_STD)
    check = places.verify if verify else places.locate
    place = check(name, data_dir)
    read = idx.read_pairs if place.layout.format == "idx" else cifar.read_batches
    try:
        (train_images, train_labels), (test_images, test_labels) = read(place)
    except ValueError as error:
        raise ValueError(f"{error} {places.advice(name, data_dir)}") from error
    mean, std = mean_std(train_images)
    return Dataset(
        name,
        _pad(train_images),
        torch.from_numpy(train_labels),
        _pad(test_images),
        torch.from_numpy(test_labels),
        SOURCES[name].classes,
        mean,
        std,
    )


def check_there(name: str, data_dir: PathLike | None = None) -> None:
    """An error that says where it was looked for, if the data set is not there."""
    if name == "imagenet":
        imagenet_root(places.data_home(data_dir))
    elif name != "digits":
        places.locate(name, data_dir)


def mean_std(images: npt.NDArray[np.uint8]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel of (N, C, H, W), in units of 255."""
    values = np.arange(256) / 255
    means, deviations = [], []
    for channel in range(images.shape[1]):
        counts = np.zeros(256)
        for start in range(0, len(images), 1000):  # bincount makes 8 bytes of each
            counts += np.bincount(images[start : start + 1000, channel].ravel(), minlength=256)
        mean = float(counts @ values / counts.sum())
        means.append(mean)
        deviations.append(float(np.sqrt(counts @ (values - mean) ** 2 / counts.sum())))
    return tuple(means), tuple(deviations)


def _pad(images: npt.NDArray[np.uint8]) -> Tensor:
    border = (SIDE - images.shape[-1]) // 2
    if border == 0:
        return torch.from_numpy(images)
    padded = np.zeros((*images.shape[:2], SIDE, SIDE), np.uint8)
    padded[..., border:-border, border:-border] = images
    return torch.from_numpy(padded)


def _digits() -> Dataset:
    """The file is made by ``tools/make_digits.py``, which names its origin."""
    with (
        resources.files(__package__).joinpath("digits.npz").open("rb") as file,
        np.load(file, allow_pickle=False) as arrays,
    ):
        stored = dict(arrays)
    images = {
        part: np.rint(stored[f"{part}_images"][:, None] * (255 / 16)).astype(np.uint8)
        for part in ("train", "test")
    }
    large = {
        part: torch.from_numpy(small.repeat(4, axis=2).repeat(4, axis=3))
        for part, small in images.items()
    }
    labels = {part: torch.from_numpy(stored[f"{part}_labels"].astype(np.int64)) for part in images}
    return Dataset(
        "digits",
        large["train"],
        labels["train"],
        large["test"],
        labels["test"],
        DIGITS,
        *mean_std(images["train"]),
    )
