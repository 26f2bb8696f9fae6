"""The directory of a run, and runs packed into one file.

    config.json     the record of the run
    metrics.jsonl   one line an epoch, from epoch 0, before training, on
    checkpoint.pt   tensors only: all that the next epoch depends on
    result.json     written last: there is a result, or the run is to be continued
    failure.json    why the run stopped, until it is continued
    pruning.json    which filters the net starts without; only for pruned nets

Every file is written under a temporary name and renamed, so none is ever half there.
"""

import gzip
import json
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, Any, TypeVar, cast

import torch

from padenet.experiments.config import Config
from padenet.experiments.disk import write, writing

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

T = TypeVar("T")
Metrics = dict[str, Any]
# Some of what every one has.
RESULT = ("status", "reason", "epochs", "test_accuracy", "seconds")
LINE = ("epoch", "test_accuracy", "seconds")


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
            write(self.config_file, config.to_json() + "\n")  # nothing is lost with the old one

    def begun(self) -> list[str]:
        """The names of files that tell what the run did."""
        files = (self.metrics_file, self.checkpoint_file, self.result_file)
        return [file.name for file in files if file.exists()]

    def check(self, config: Config) -> None:
        """Refuse to go on if what is here is another run's, and write nothing."""
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
                self.metrics_file.read_bytes(),
                self.metrics_file,
                lambda line: expect(line, LINE),
                "Put back a copy, or delete it and checkpoint.pt to start the run again.",
            )
        )

    def write_metrics(self, lines: Iterable[Metrics]) -> None:
        write(self.metrics_file, "".join(json.dumps(line) + "\n" for line in lines))

    def write_result(self, result: dict[str, Any]) -> None:
        write(self.result_file, json.dumps(result, indent=2) + "\n")
        self.failure_file.unlink(missing_ok=True)

    def write_failure(self, error: BaseException | str) -> None:
        """Best effort: the disk may be what failed."""
        reason = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
        with suppress(OSError):
            write(self.failure_file, json.dumps({"reason": reason}, indent=2) + "\n")

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
                f"{self.checkpoint_file} cannot be read: it is cut short, damaged or not a "
                "checkpoint. Delete it to start the run again, or put back a copy."
            ) from error

    def failure(self) -> str:
        """Why the run stopped, where that is known."""
        try:
            failure = read_json(self.failure_file, lambda found: expect(found, ("reason",)))
            return str(failure["reason"])
        except FileNotFoundError:  # it goes when the run goes on
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
        pruning = (
            self.pruning_file.read_text(encoding="utf-8") if self.pruning_file.exists() else ""
        )
        return Run(config, self.metrics(), self.result(), self.failure(), pruning, str(self.path))


def read_json(
    path: Path, make: Callable[[Any], T], fix: str = "Delete it or put back a copy."
) -> T:
    try:
        return make(json.loads(path.read_text(encoding="utf-8")))
    except ValueError as error:
        raise ValueError(f"{path} is not what it should be ({error}). {fix}") from error


def expect(found: Any, names: Iterable[str] = ()) -> dict[str, Any]:
    """An object that has at least these names."""
    if not isinstance(found, dict):
        raise ValueError(f"a {type(found).__name__}, not an object")
    if missing := [name for name in names if name not in found]:
        raise ValueError(f"without {', '.join(missing)}")
    return found


def expect_result(found: Any) -> dict[str, Any]:
    result = expect(found, RESULT)
    status, accuracy = result["status"], result["test_accuracy"]
    if status not in ("done", "diverged", "failed"):
        raise ValueError(f"status is {status!r}, not done, diverged or failed")
    if accuracy is not None and not (type(accuracy) in (int, float) and 0 <= accuracy <= 100):
        raise ValueError(f"test_accuracy is {accuracy!r}, not a percentage")
    return result


def read_lines(
    content: bytes, path: Path, make: Callable[[Any], T], fix: str = "Put back a copy."
) -> Iterator[T]:
    for number, line in enumerate(content.splitlines(), 1):
        try:
            yield make(json.loads(line))
        except ValueError as error:
            raise ValueError(
                f"{path}, line {number} is not what it should be ({error}). {fix}"
            ) from error


def read_runs(source: str | Path) -> list[Run]:
    """All runs under a directory, at any depth, or in a packed file; sorted by name."""
    source = Path(source)
    if source.is_dir():
        runs = [RunDirectory(p.parent).read() for p in source.rglob("config.json")]
    elif source.exists():
        try:
            with gzip.open(source) as file:
                content = file.read()
        except (OSError, EOFError) as error:
            raise ValueError(
                f"{source} is not a whole file of packed runs ({error}). Put back a copy."
            ) from error
        runs = [replace(run, place=str(source)) for run in read_lines(content, source, _unpacked)]
    else:
        raise FileNotFoundError(
            f"{source} is not there. Name a directory of runs or a packed file."
        )
    if not runs:
        why = "no config.json under it" if source.is_dir() else "the file is empty"
        raise ValueError(f"{source} holds no runs: {why}.")
    return sorted(runs, key=lambda run: run.config.name)


def _unpacked(found: Any) -> Run:
    record = expect(found, ("config", "metrics", "result"))
    config, metrics, result = (record[name] for name in ("config", "metrics", "result"))
    if not isinstance(metrics, list):
        raise ValueError(f"metrics is a {type(metrics).__name__}, not a list")
    return Run(
        Config.from_dict(expect(config)),
        [expect(line, LINE) for line in metrics],
        None if result is None else expect_result(result),
        record.get("failure", ""),
        record.get("pruning", ""),
    )


def pack(runs: Iterable[Run], path: str | Path) -> None:
    """Write runs into one file, without checkpoints; the same runs give the same bytes."""
    lines = []
    for run in runs:
        record = asdict(run)
        del record["place"]
        for name in ("failure", "pruning"):
            if not record[name]:
                del record[name]
        lines.append(json.dumps(record))

    def content(file: IO[bytes]) -> None:
        with gzip.GzipFile(fileobj=file, mode="wb", mtime=0, filename="") as packed:
            packed.write("".join(f"{line}\n" for line in lines).encode())

    write(Path(path), content)
