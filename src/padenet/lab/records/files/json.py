"""JSON records in files: whole or not at all, with checksums, and errors that name file and fix."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from padenet.lab.records.files.checksums import sealed, unsealed
from padenet.lab.records.files.disk import write

T = TypeVar("T")


def read_json(
    path: Path, make: Callable[[Any], T], fix: str = "Delete it or put back a copy."
) -> T:
    try:
        (found,) = unsealed([path.read_bytes()])
        return make(found)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not what it should be ({error}). {fix}") from error


def read_lines(
    lines: Iterable[bytes], path: Path, make: Callable[[Any], T], fix: str = "Put back a copy."
) -> Iterator[T]:
    number = 1
    try:
        for found in unsealed(lines):
            yield make(found)
            number += 1
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{path}, line {number} is not what it should be ({error}). {fix}"
        ) from error


def write_json(path: Path, record: dict[str, Any]) -> None:
    write(path, lambda file: file.write(sealed([record], indent=2)))
