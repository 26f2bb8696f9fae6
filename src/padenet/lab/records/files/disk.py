"""Writing to disk: a whole file or nothing, and errors that name the file and the fix."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from padenet.core import replacing


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Around what writes ``path``: an error of the system names it and says what to do."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise  # a sentence of ours already
        fix = "Make room or choose another directory. Repeat the command to resume."
        if isinstance(error, NotADirectoryError | FileExistsError):
            fix = "A file is in its way: choose another directory."
        raise OSError(
            f"{path} cannot be written ({error.strerror}). What was there is kept. {fix}"
        ) from error


def write(path: Path, content: str | Callable[[IO[bytes]], Any]) -> None:
    """Write the whole file or nothing, and have it on disk before its name appears."""
    with writing(path):
        try:
            with replacing(path) as temporary, open(temporary, "wb") as file:
                if isinstance(content, str):
                    file.write(content.encode())
                else:
                    content(file)
                file.flush()
                os.fsync(file.fileno())
        except RuntimeError as error:
            said = error.__context__
            if isinstance(said, OSError):
                raise said from None  # torch.save's way to say what the disk said
            raise
