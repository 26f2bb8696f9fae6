"""Files that are there whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary name beside ``path`` to write to; it replaces ``path`` at the end.

    An error of the system about the temporary file names ``path``.
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} cannot be written: it is a directory. Name a file.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path} cannot be written: {path.parent} is not a directory.")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield temporary
        os.replace(temporary, path)
    except OSError as error:
        if error.filename != str(temporary) and error.filename != temporary:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        temporary.unlink(missing_ok=True)
