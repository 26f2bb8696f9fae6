"""Where a data set lies on this machine, and whether its files are those published."""

import gzip
import hashlib
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from padenet.lab.data.sources import SOURCES, Layout, Source, find_source

PathLike = str | os.PathLike[str]
CHUNK = 1 << 20


@dataclass(frozen=True)
class Place:
    """A folder with files of a data set: by name in its layout the path, plain or ``.gz``."""

    layout: Layout
    folder: Path
    files: dict[str, Path]

    @property
    def missing(self) -> list[str]:
        return [name for name in self.layout.files if name not in self.files]


def data_home(data_dir: PathLike | None = None) -> Path:
    """The data directory: ``data_dir``, else PADENET_DATA, else padenet in the user's cache."""
    if data_dir is None:
        data_dir = os.environ.get("PADENET_DATA") or None
    if data_dir is not None:
        return Path(data_dir).expanduser()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "relative")
    return (cache if cache.is_absolute() else Path("~/.cache").expanduser()) / "padenet"


def find(source: Source, home: Path) -> Place | None:
    """The first of the layouts that is complete, else the first with any file of it."""
    places = [_look(layout, home / layout.folder) for layout in source.layouts]
    places.sort(key=lambda place: len(place.missing) > 0)
    return next((place for place in places if place.files), None)


def _look(layout: Layout, folder: Path) -> Place:
    files = {}
    for name in layout.files:
        for path in (folder / name, folder / f"{name}.gz"):
            if path.is_file():
                files[name] = path
                break
    return Place(layout, folder, files)


def locate(
    name: str, data_dir: PathLike | None = None, *, sources: Mapping[str, Source] = SOURCES
) -> Place:
    """The complete set in the data directory, or an error that says where it was looked for."""
    source, home = find_source(name, sources), data_home(data_dir)
    place = find(source, home)
    if place is None:
        folders = ", ".join(str(home / layout.folder) for layout in source.layouts)
        raise FileNotFoundError(f"{name} is not in {folders}. {advice(name, data_dir)}")
    if place.missing:
        names = ", ".join(place.missing)
        raise FileNotFoundError(
            f"{name} is incomplete: {place.folder} has no {names}. {advice(name, data_dir)}"
        )
    return place


def advice(name: str, data_dir: PathLike | None) -> str:
    option = "" if data_dir is None else f" --data-dir {data_dir}"
    return (
        f"Get it with `padenet data fetch {name}{option}`, or name the directory that has it: "
        "data_dir, --data-dir or the environment variable PADENET_DATA."
    )


def verify(
    name: str, data_dir: PathLike | None = None, *, sources: Mapping[str, Source] = SOURCES
) -> Place:
    """The set's place, after a check of every file against its published digest."""
    place = locate(name, data_dir, sources=sources)
    wrong = [
        reason
        for file, path in place.files.items()
        if (reason := difference(path, place.layout.files[file]))
    ]
    if wrong:
        raise ValueError(f"{'; '.join(wrong)}. {advice(name, data_dir)}")
    return place


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
