"""Where the runs of a sweep stand, as their directories say, and what they gave."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any, Literal

from padenet.lab.records.config import Config
from padenet.lab.records.directory import RunDirectory
from padenet.lab.sweep.jobs import taken_up
from padenet.lab.sweep.outcome import Outcome

State = Literal["waiting", "begun", "running", "done", "diverged", "failed"]


@dataclass(frozen=True)
class Status:
    """Where a run stands, as its directory says."""

    config: Config
    state: State
    reason: str = ""
    epoch: int = 0
    accuracy: float | None = None
    epoch_seconds: float | None = None
    result: dict[str, Any] | None = None


def look(config: Config, out: str | Path, since: float = math.inf) -> Status:
    """Where a run stands. It is running if its directory was locked after the time ``since``."""
    directory = RunDirectory(Path(out) / config.name)
    result = directory.result()
    if result is not None:
        pace = result["seconds"] / max(1, result["epochs"])
        accuracy, epochs = result["test_accuracy"], result["epochs"]
        return Status(config, result["status"], result["reason"], epochs, accuracy, pace, result)
    state: State = "waiting"
    epoch, accuracy, pace = 0, None, None
    if directory.metrics_file.exists():
        state = "begun"
        for last in directory.metrics()[-1:]:
            epoch, accuracy = last["epoch"], last["test_accuracy"]
            pace = last["seconds"] if epoch else None
    if taken_up(config, out, since):
        state = "running"
    if reason := directory.failure():
        state = "failed"
    return Status(config, state, reason, epoch, accuracy, pace)


def exit_code(ends: Iterable[Status | Outcome]) -> int:
    """0: all done. 2: some failed. 4: some unfinished. 3: all have a result, some diverged."""
    states = {e.state for e in ends}
    if "failed" in states:
        return 2
    if states - {"done", "diverged"}:
        return 4
    return 3 if "diverged" in states else 0


def summarize(statuses: Iterable[Status]) -> list[list[str]]:
    """Mean accuracies: a heading, then a row an activation; a column a data set and net."""
    statuses = [s for s in statuses if s.result is not None]
    column = lambda c: f"{c.dataset} {c.net}"
    row = lambda c: "-".join(p for p in (c.activation, c.label) if p)
    columns = list(dict.fromkeys(column(s.config) for s in statuses))
    rows = list(dict.fromkeys(row(s.config) for s in statuses))
    cell = lambda r, c: [s for s in statuses if (row(s.config), column(s.config)) == (r, c)]
    return [["", *columns], *([r, *(_cell(cell(r, c)) for c in columns)] for r in rows)]


def _cell(statuses: list[Status]) -> str:
    values = [s.accuracy for s in statuses if s.state == "done" and s.accuracy is not None]
    diverged = sum(s.state == "diverged" for s in statuses)
    parts = []
    if values:
        spread = f" ± {stdev(values):.2f}" if len(values) > 1 else ""
        parts.append(f"{mean(values):.2f}{spread} ({len(values)})")
    if diverged:
        parts.append(f"{diverged} diverged")
    return ", ".join(parts) or "–"
