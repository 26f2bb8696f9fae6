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
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from padenet.lab.records.config import Config
from padenet.lab.records.expected import (
    expect,
    expect_failure,
    expect_line,
    expect_pruning,
    expect_result,
    expect_run,
)
from padenet.lab.records.files.checkpoints import read_checkpoint, write_checkpoint
from padenet.lab.records.files.checksums import sealed
from padenet.lab.records.files.disk import write, writing
from padenet.lab.records.files.json import read_json, read_lines, write_json
from padenet.lab.records.files.lock import locked
from padenet.lab.records.run import Metrics, Run


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
            write_json(self.config_file, asdict(config))  # nothing is lost with the old one

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
        write_json(self.result_file, result)
        self.failure_file.unlink(missing_ok=True)

    def write_failure(self, error: BaseException | str) -> None:
        """Best effort: the disk may be what failed."""
        reason = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
        with suppress(OSError):
            write_json(self.failure_file, {"reason": reason})

    @contextmanager
    def locked(self) -> Iterator[None]:
        """For one process at a time. The system drops the lock with the process, killed or not."""
        self._make()
        with locked(self.path):
            yield

    def write_checkpoint(self, state: dict[str, Any]) -> None:
        write_checkpoint(self.checkpoint_file, state)

    def checkpoint(self) -> dict[str, Any] | None:
        """The last checkpoint, on the CPU; None before the first."""
        return read_checkpoint(self.checkpoint_file) if self.checkpoint_file.exists() else None

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
