"""What a data set is once it is loaded: a record of tensors, or of folders."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from padenet.lab.data.folder import ImageFolder
from padenet.lab.data.sources import Arrays

SIDE = 32


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


def in_memory(
    train: Arrays,
    test: Arrays,
    classes: tuple[str, ...],
    *,
    name: str = "",
    statistics: tuple[tuple[float, ...], tuple[float, ...]] | None = None,
) -> Dataset:
    """A ``Dataset`` of arrays; smaller images get a black border that makes them 32 × 32.

    Args:
        train: Images, uint8 (N, C, H, W), and labels (N,), which count the classes from 0.
        test: Likewise.
        classes: What the labels mean.
        name: Set by ``load``.
        statistics: Mean and deviation of each channel; by default those of the training images.
    """
    for part, (images, labels) in (("train", train), ("test", test)):
        _check(part, np.asarray(images), np.asarray(labels), len(classes))
    mean, std = statistics or mean_std(np.asarray(train[0]))
    return Dataset(name, *_tensors(train), *_tensors(test), classes, mean, std)


def _check(part: str, images: npt.NDArray[Any], labels: npt.NDArray[Any], classes: int) -> None:
    if images.dtype != np.uint8 or images.ndim != 4:
        raise ValueError(
            f"{part}: images are {images.dtype} of shape {images.shape}, not uint8 (N, C, H, W)."
        )
    if labels.shape != (len(images),):
        raise ValueError(f"{part}: {len(images)} images and labels of shape {labels.shape}.")
    if not len(labels) or labels.dtype.kind not in "iu":
        raise ValueError(f"{part}: {len(labels)} labels of {labels.dtype}, not whole numbers.")
    if labels.min() < 0 or labels.max() >= classes:
        raise ValueError(
            f"{part}: labels from {labels.min()} to {labels.max()} for {classes} classes."
        )


def _tensors(part: Arrays) -> tuple[Tensor, Tensor]:
    images, labels = part
    return _pad(np.asarray(images)), torch.from_numpy(np.asarray(labels).astype(np.int64))


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
    if border <= 0:
        return torch.from_numpy(np.require(images, requirements=["C", "W"]))
    padded = np.zeros((*images.shape[:2], SIDE, SIDE), np.uint8)
    padded[..., border:-border, border:-border] = images
    return torch.from_numpy(padded)
