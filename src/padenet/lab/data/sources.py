"""Published files of a data set, and a copy of them on this machine.

A digest is written "algorithm:hex". Those of a layout are of the decompressed files, so that a
copy that was compressed anew passes; those of the downloads are of the files as published.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

Arrays = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]
"""Images (N, C, H, W) and labels (N,)."""


@dataclass(frozen=True)
class Layout:
    """A folder under the data directory, what reads it, and the digest of each file in it."""

    folder: str
    read: "Callable[[LocalCopy], tuple[Arrays, Arrays]]"  # for training, and for test
    files: Mapping[str, str]


@dataclass(frozen=True)
class Source:
    """Files that can be fetched: downloads go into the folder of the first layout.

    Every mirror has every download under its own name; a ``.tar.gz`` is unpacked.
    """

    layouts: tuple[Layout, ...]
    mirrors: tuple[str, ...]
    downloads: Mapping[str, str]


@dataclass(frozen=True)
class LocalCopy:
    """A folder with files of a data set: by name in its layout the path, plain or ``.gz``."""

    layout: Layout
    folder: Path
    files: dict[str, Path]

    @property
    def missing(self) -> list[str]:
        return [name for name in self.layout.files if name not in self.files]
