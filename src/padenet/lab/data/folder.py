"""Folders of images, one per class, as ImageNet is unpacked: decoded with Pillow when asked for."""

import math
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from padenet.core import require
from padenet.lab.data.order import Draw

EXTENSIONS = (".jpeg", ".jpg", ".png", ".webp", ".bmp", ".ppm")
SCALE = (0.08, 1.0)
RATIO = (3 / 4, 4 / 3)
ATTEMPTS = 10
CENTRE = 224 / 256  # side of the test crop over the shorter side
REDUCING_GAP = 3.0  # Pillow: as good as a full antialiased resize, faster on huge images

Box = tuple[float, float, float, float]  # left, upper, right, lower


class ImageFolder(Dataset[tuple[Tensor, int]]):
    """The images under ``root``, one subfolder a class: (uint8 (3, size, size), label).

    For training a random part of the image (8 to 100 % of its area, sides 3:4 to 4:3) is resized
    and flipped half the time; for test the central square of 224/256 of the shorter side is
    resized, which is "resize to 256, crop 224" in one step. Resizing is bilinear and antialiased.

    ``folder[draw]`` takes a ``Draw(seed, epoch, image)``, and the result depends on nothing else;
    a plain index stands for ``Draw(0, 0, index)``.

    Args:
        root: The folder, such as ``imagenet/train``.
        train: Random crop and flip, or the centre.
        size: Side of the result in pixels.
    """

    def __init__(self, root: str | os.PathLike[str], *, train: bool, size: int = 224) -> None:
        self.root, self.train, self.size = Path(root), train, size
        require("PIL.Image", "train")
        if not self.root.is_dir():
            raise FileNotFoundError(f"{self.root}: no such folder. It has one subfolder a class.")
        self.classes = tuple(sorted(e.name for e in os.scandir(self.root) if e.is_dir()))
        if not self.classes:
            raise ValueError(
                f"{self.root} has no subfolders. Sort the images into one folder a class."
            )
        names = [_images_in(self.root / name) for name in self.classes]
        # arrays, since the reference counts of a list's items would have every worker copy it
        self._names = np.array([os.fsencode(name) for part in names for name in part])
        self._labels = np.repeat(np.arange(len(names)), [len(part) for part in names])

    def __len__(self) -> int:
        return len(self._labels)

    def path(self, index: int) -> Path:
        label = self.classes[self._labels[index]]
        return self.root / label / os.fsdecode(bytes(self._names[index]))

    def __getitem__(self, draw: Draw | int) -> tuple[Tensor, int]:
        seed, epoch, index = draw if isinstance(draw, tuple) else (0, 0, draw)
        path = self.path(index)
        # a string is seeded by its hash, so near numbers give unrelated sequences
        rng = random.Random(f"{seed}/{epoch}/{index}") if self.train else None
        try:
            pixels = _read(path, self.size, rng)
        except Exception as error:  # decoders fail in many ways
            said = " ".join(str(error).split())
            raise ValueError(
                f"{path}: cannot be decoded ({said}). Replace the file or delete it."
            ) from error
        return torch.from_numpy(pixels), int(self._labels[index])


def _images_in(folder: Path) -> list[str]:
    names = sorted(e.name for e in os.scandir(folder) if e.name.lower().endswith(EXTENSIONS))
    if not names:
        raise ValueError(
            f"{folder} has no images ({', '.join(EXTENSIONS)}). Fill the folder or delete it."
        )
    return names


def _read(path: Path, size: int, rng: random.Random | None) -> np.ndarray[Any, Any]:
    """The decoded crop, (3, size, size); without ``rng`` the central one."""
    image_module = require("PIL.Image", "train")
    with image_module.open(path) as file:
        image = file.convert("RGB")
    width, height = image.size
    box = centre_box(width, height) if rng is None else random_box(width, height, rng)
    bilinear = image_module.Resampling.BILINEAR
    image = image.resize((size, size), bilinear, box=box, reducing_gap=REDUCING_GAP)
    pixels = np.asarray(image)
    if rng is not None and rng.random() < 0.5:
        pixels = pixels[:, ::-1]
    return np.array(pixels.transpose(2, 0, 1), order="C")


def random_box(width: int, height: int, rng: random.Random) -> Box:
    """A part of random area and shape; after 10 misses the largest central one of that shape."""
    low, high = (math.log(r) for r in RATIO)
    for _ in range(ATTEMPTS):
        area = width * height * (SCALE[0] + (SCALE[1] - SCALE[0]) * rng.random())
        ratio = math.exp(low + (high - low) * rng.random())
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            left = int((width - w + 1) * rng.random())
            upper = int((height - h + 1) * rng.random())
            return left, upper, left + w, upper + h
    return _central(width, height, min(width, height * RATIO[1]), min(height, width / RATIO[0]))


def centre_box(width: int, height: int) -> Box:
    side = CENTRE * min(width, height)
    return _central(width, height, side, side)


def _central(width: int, height: int, w: float, h: float) -> Box:
    left, upper = (width - w) / 2, (height - h) / 2
    return left, upper, left + w, upper + h
