"""The directory of a run.

    config.json     the record of the run
    metrics.jsonl   one line per epoch, from epoch 0, before training, on
    checkpoint.pt   tensors only: all that the next epoch depends on
    result.json     written last: there is a result, or the run is to be continued
    failure.json    why the run stopped, until it is continued
    pruning.json    which filters the net starts without; only for pruned nets

Every file is written under a temporary name and renamed, so none is ever half there. Records carry
checksums, as the checkpoint does.
"""

import json
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

import torch

from padenet.lab.records.checksums import sealed, unsealed
from padenet.lab.records.config import Config
from padenet.lab.records.disk import write, writing
from padenet.lab.records.records import (
    Metrics,
    expect,
    expect_failure,
    expect_line,
    expect_pruning,
    expect_result,
    expect_run,
)

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

T = TypeVar("T")


@dataclass(frozen=True)
class Run:
    """A run as recorded: ``result`` is None as long as it is not finished.

    ``failure`` says why one that is not finished has stopped, where that is known; ``pruning`` is
    the text of pruning.json, empty for a whole net; ``place`` is where it was read.
    """

    config: Config
    metrics: list[Metrics]
    result: dict[str, Any] | None
    failure: str = ""
    pruning: str = ""
    place: str = field(default="", compare=False)


class InUse(ValueError):
    """Another process trains the run of this directory."""


class RunDirectory:
    """The files of one run."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self.config_file = self.path / "config.json"
        self.metrics_file = self.path / "metrics.jsonl"
        self.checkpoint_file = self.path / "checkpoint.pt"
        self.result_file = self.path / "result.json"
        self.failure_file = self.path / "failure.json"
        self.pruning_file = self.path / "pruning.json"

    def claim(self, config: Config) -> None:
        """Make the directory the one of ``config``, or refuse. For those who hold its lock."""
        self._make()
        self.check(config)
        if not self.begun():
            _write(self.config_file, asdict(config))  # nothing is lost with the old one

    def begun(self) -> list[str]:
        """The names of files that tell what the run did."""
        files = (self.metrics_file, self.checkpoint_file, self.result_file)
        return [file.name for file in files if file.exists()]

    def check(self, config: Config) -> None:
        """Refuse to continue if what is here is another run's, and write nothing."""
        begun = self.begun()
        if not begun:
            return
        if not self.config_file.exists():
            raise ValueError(
                f"{self.path} has {', '.join(begun)} and no config.json that says of which run. "
                "Put back a copy, or delete them to start the run again."
            )
        found = self._read_config()
        wanted = json.loads(config.to_json())
        differences = [
            f"{name} is {found.get(name)!r} there and {wanted.get(name)!r} here"
            for name in {**found, **wanted}
            if found.get(name) != wanted.get(name)
        ]
        if differences:
            raise ValueError(
                f"{self.path} holds a run with another config: {'; '.join(differences)}. "
                "Choose another directory, or repeat the command with the values found there."
            )

    def check_whole(self) -> None:
        """Refuse a directory whose net is a pruned one."""
        if self.pruning_file.exists():
            raise ValueError(
                f"{self.path} holds a pruned net: it has a pruning.json. Go on with padenet prune, "
                "or choose another label or directory for the whole net."
            )

    def _make(self) -> None:
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)

    def result(self) -> dict[str, Any] | None:
        return read_json(self.result_file, expect_result) if self.result_file.exists() else None

    def metrics(self) -> list[Metrics]:
        """The lines written so far."""
        if not self.metrics_file.exists():
            return []
        return list(
            read_lines(
                self.metrics_file.read_bytes().splitlines(keepends=True),
                self.metrics_file,
                expect_line,
                "Put back a copy, or delete it and checkpoint.pt to start the run again.",
            )
        )

    def write_metrics(self, lines: Iterable[Metrics]) -> None:
        write(self.metrics_file, lambda file: file.write(sealed(lines)))

    def write_result(self, result: dict[str, Any]) -> None:
        _write(self.result_file, result)
        self.failure_file.unlink(missing_ok=True)

    def write_failure(self, error: BaseException | str) -> None:
        """Best effort: the disk may be what failed."""
        reason = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
        with suppress(OSError):
            _write(self.failure_file, {"reason": reason})

    @contextmanager
    def locked(self) -> Iterator[None]:
        """For one process at a time. The system drops the lock with the process, killed or not."""
        self._make()
        if fcntl is None:
            yield
            return
        lock = self.path / ".lock"
        with writing(lock):
            lock.touch()
        with open(lock, "w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InUse(f"{self.path} is in use: another process trains this run.") from None
            except OSError:  # a file system without locks
                pass
            for left in self.path.glob(".*.part"):  # by a process that was killed while it wrote
                left.unlink()
            yield

    def write_checkpoint(self, state: dict[str, Any]) -> None:
        write(self.checkpoint_file, lambda file: torch.save(state, file))

    def checkpoint(self) -> dict[str, Any] | None:
        """The last checkpoint, on the CPU; None before the first."""
        if not self.checkpoint_file.exists():
            return None
        try:
            with zipfile.ZipFile(self.checkpoint_file) as file:
                if (part := file.testzip()) is not None:  # torch.load looks at no check sum
                    raise ValueError(f"the check sum of {part} is another")
            found = torch.load(self.checkpoint_file, map_location="cpu", weights_only=True)
            kinds = type(found["epoch"]), type(found["net"]), type(found["optimizer"])
            if not all(map(issubclass, kinds, (int, dict, dict))):
                raise TypeError(f"epoch, net and optimizer are of types {kinds}")
            return cast(dict[str, Any], found)
        except Exception as error:
            raise OSError(
                f"{self.checkpoint_file} cannot be read: it is incomplete, damaged or not a "
                "checkpoint. Delete it to start the run again, or put back a copy."
            ) from error

    def failure(self) -> str:
        """Why the run stopped, where that is known."""
        try:
            return str(read_json(self.failure_file, expect_failure)["reason"])
        except FileNotFoundError:  # it is deleted when the run resumes
            return ""

    def _read_config(self) -> dict[str, Any]:
        fix = "Put back a copy, or delete the directory to start the run again."
        return read_json(self.config_file, expect, fix)

    def read(self) -> Run:
        values = self._read_config()
        try:
            config = Config.from_dict(values)
        except ValueError as error:
            raise ValueError(
                f"{self.config_file} is not the record of a run ({error}). Move it elsewhere."
            ) from error
        pruning = ""
        if self.pruning_file.exists():
            read_json(self.pruning_file, expect_pruning)
            pruning = self.pruning_file.read_text(encoding="utf-8")
        metrics, result = self.metrics(), self.result()
        try:
            expect_run(config, metrics, result)
        except ValueError as error:
            raise ValueError(
                f"{self.metrics_file} is not what it should be ({error}). Put back a copy, or "
                "delete the directory to start the run again."
            ) from error
        return Run(config, metrics, result, self.failure(), pruning, str(self.path))


def read_json(
    path: Path, make: Callable[[Any], T], fix: str = "Delete it or put back a copy."
) -> T:
    try:
        (found,) = unsealed([path.read_bytes()])
        return make(found)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not what it should be ({error}). {fix}") from error


def _write(path: Path, record: dict[str, Any]) -> None:
    write(path, lambda file: file.write(sealed([record], indent=2)))


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
