"""The lock of a run's directory: one process at a time trains in it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from padenet.lab.records.files.disk import writing

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


class InUse(ValueError):
    """Another process trains the run of this directory."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """The folder's lock, which the system drops with the process, killed or not."""
    if fcntl is None:
        yield
        return
    lock = folder / ".lock"
    with writing(lock):
        lock.touch()
    with open(lock, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InUse(f"{folder} is in use: another process trains this run.") from None
        except OSError:  # a file system without locks
            pass
        for left in folder.glob(".*.part"):  # by a process that was killed while it wrote
            left.unlink()
        yield
