"""The idx format of MNIST: big-endian header (0, 0, type, dimensions, sizes), then the values."""

import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from padenet.lab.data.local import content
from padenet.lab.data.sources import Arrays, LocalCopy

UNSIGNED_BYTE = 8
SIDE = 28


def read_idx(path: Path, dimensions: int) -> npt.NDArray[np.uint8]:
    """The array of unsigned bytes in a plain or gzipped file, read-only."""
    data = content(path)
    magic = bytes((0, 0, UNSIGNED_BYTE, dimensions))
    if data[:4] != magic:
        raise ValueError(
            f"{path}: bad magic number 0x{data[:4].hex()}, expected 0x{magic.hex()} "
            f"(idx, unsigned bytes, {dimensions} dimensions)."
        )
    start = 4 + 4 * dimensions
    if len(data) < start:
        raise ValueError(f"{path}: {len(data)} bytes, expected a header of {start}.")
    shape = struct.unpack_from(f">{dimensions}I", data, 4)
    size = start + math.prod(shape)
    if len(data) != size:
        raise ValueError(f"{path}: {len(data):,} bytes, expected {size:,} for shape {shape}.")
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)


def read_pairs(copy: LocalCopy) -> tuple[Arrays, Arrays]:
    """(images (N, 1, 28, 28), labels (N,)) for training, and for test."""
    paths = [copy.files[name] for name in copy.layout.files]
    return _pair(paths[0], paths[1]), _pair(paths[2], paths[3])


def _pair(image_path: Path, label_path: Path) -> Arrays:
    images, labels = read_idx(image_path, 3), read_idx(label_path, 1)
    if images.shape[1:] != (SIDE, SIDE):
        raise ValueError(f"{image_path}: images of {images.shape[1:]}, expected {(SIDE, SIDE)}.")
    if len(images) != len(labels):
        raise ValueError(
            f"{image_path} has {len(images)} images, but {label_path} {len(labels)} labels."
        )
    check_labels(labels, label_path)
    return images[:, None], labels.astype(np.int64)


def check_labels(labels: npt.NDArray[Any], path: Path) -> None:
    """Refuse labels of a file that are not those of ten classes."""
    if labels.size == 0:
        raise ValueError(f"{path} holds no labels.")
    wrong = np.flatnonzero((labels < 0) | (labels > 9))
    if wrong.size:
        raise ValueError(
            f"{path}: label {wrong[0]} is {labels[wrong[0]]}, expected one from 0 to 9."
        )
