"""Copies of data sets on this machine: where they lie, and what differs from what was published."""

import gzip
import hashlib
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from padenet.lab.data.sources import Layout, LocalCopy, Source

PathLike = str | os.PathLike[str]
CHUNK = 1 << 20


def data_home(data_dir: PathLike | None = None) -> Path:
    """The data directory: ``data_dir``, else PADENET_DATA, else padenet in the user's cache."""
    if data_dir is None:
        data_dir = os.environ.get("PADENET_DATA") or None
    if data_dir is not None:
        return Path(data_dir).expanduser()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "relative")
    return (cache if cache.is_absolute() else Path("~/.cache").expanduser()) / "padenet"


def find(source: Source, home: Path) -> LocalCopy | None:
    """The first of the layouts that is complete, else the first with any file of it."""
    copies = [_look(layout, home / layout.folder) for layout in source.layouts]
    copies.sort(key=lambda copy: len(copy.missing) > 0)
    return next((copy for copy in copies if copy.files), None)


def _look(layout: Layout, folder: Path) -> LocalCopy:
    files = {}
    for name in layout.files:
        for path in (folder / name, folder / f"{name}.gz"):
            if path.is_file():
                files[name] = path
                break
    return LocalCopy(layout, folder, files)


def difference(path: Path, expected: str, *, decompress: bool = True) -> str | None:
    """What is wrong with the file, or None where its digest is the expected one."""
    algorithm, _, value = expected.partition(":")
    digest = hashlib.new(algorithm, usedforsecurity=False)
    try:
        with open_content(path) if decompress else path.open("rb") as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
    except ValueError as error:
        return str(error)
    if digest.hexdigest() == value:
        return None
    return f"{path}: {algorithm} is {digest.hexdigest()}, expected {value}"


@contextmanager
def open_content(path: Path) -> Iterator[BinaryIO]:
    """The file opened for reading, decompressed if it ends in ``.gz``."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            yield cast(BinaryIO, file)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path}: truncated or corrupt gzip file ({error})") from error


def content(path: Path) -> bytes:
    with open_content(path) as file:
        return file.read()
