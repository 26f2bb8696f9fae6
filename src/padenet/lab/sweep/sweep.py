"""A sweep: all runs of a recipe under one directory, where each of them stands, what they gave.

The run directories hold all there is to know, so a sweep can be cut and repeated at will, by any
scheduler: runs that have a result are left alone, the others go on.
"""

import importlib.util
import math
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from statistics import mean, stdev
from traceback import extract_tb
from typing import Any, Literal

from padenet.core.extras import unknown
from padenet.lab.data import check_there
from padenet.lab.records.config import Config
from padenet.lab.records.disk import writing
from padenet.lab.records.store import RunDirectory
from padenet.lab.run.execution import Execution
from padenet.lab.sweep.jobs import run_all, taken_up
from padenet.lab.sweep.outcome import OnEnd, Outcome, say_nothing
from padenet.lab.sweep.recipes import RECIPES

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


def find_runs(recipe: str) -> list[Config]:
    """The runs of a known recipe, or of a Python file that defines ``runs() -> list[Config]``."""
    if recipe in RECIPES:
        return RECIPES[recipe]()
    path = Path(recipe)
    if not path.is_file():
        if path.suffix == ".py" or len(path.parts) > 1:
            raise FileNotFoundError(f"{recipe} is no file. Known recipes: {', '.join(RECIPES)}.")
        raise unknown("recipe", recipe, RECIPES)
    spec = importlib.util.spec_from_file_location(f"padenet_recipe_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{recipe} is no Python file: its name must end in .py.")
    module = importlib.util.module_from_spec(spec)
    with _beside(path), _explained(recipe):
        spec.loader.exec_module(module)
        made = getattr(module, "runs", None)
        runs = made() if callable(made) else None
    if not isinstance(runs, list) or not all(isinstance(r, Config) for r in runs):
        raise ValueError(f"{recipe} must define a function runs() that returns a list of Config.")
    return runs


@contextmanager
def _beside(path: Path) -> Iterator[None]:
    """Let a file import its neighbours, as Python lets a script."""
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        with suppress(ValueError):  # the file may have changed the list itself
            sys.path.remove(folder)


@contextmanager
def _explained(recipe: str) -> Iterator[None]:
    """What goes wrong in a user's file, with its name and the line."""
    try:
        yield
    except (Exception, SystemExit) as error:
        own = os.path.abspath(recipe)
        lines = [f.lineno for f in extract_tb(error.__traceback__) if f.filename == own]
        line = f", line {lines[-1]}" if lines else ""
        raise ValueError(f"{recipe}{line}: {type(error).__name__}: {error}") from error


def choose(
    configs: Iterable[Config], only: str | None = None, fields: dict[str, Any] | None = None
) -> list[Config]:
    """The runs with ``fields`` put in and a name like ``only``; names must be unique."""
    made = [replace(c, **(fields or {})) for c in configs]
    if not made:
        raise ValueError("the recipe has no runs.")
    [(name, times)] = Counter(c.name for c in made).most_common(1)
    if times > 1:
        raise ValueError(f"{name} is there {times} times. Tell runs apart by seed or label.")
    chosen = [c for c in made if only is None or fnmatchcase(c.name, only)]
    if not chosen:
        raise ValueError(f"only={only!r} fits none of {len(made)} runs, such as {name}.")
    return chosen


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


def check_directories(configs: Iterable[Config], out: str | Path) -> None:
    """Refuse, before any work, an ``out`` that cannot be, or that holds runs of other settings."""
    for path in (Path(out), *Path(out).parents):
        if path.exists() and not path.is_dir():
            raise NotADirectoryError(
                f"{out} cannot be a directory: {path} is a file. Name another one."
            )
    for config in configs:
        directory = RunDirectory(Path(out) / config.name)
        directory.check_whole()
        directory.check(config)


def check_work(statuses: Iterable[Status], out: str | Path, data_dir: str | None) -> None:
    """Refuse, before any work, what would fail every run in the same way."""
    with writing(Path(out)):
        Path(out).mkdir(parents=True, exist_ok=True)
    wanted = dict.fromkeys(s.config.dataset for s in statuses if s.result is None)
    absent = []
    for name in wanted:
        try:
            check_there(name, data_dir)
        except FileNotFoundError as error:
            absent.append(error)
    if absent and len(absent) == len(wanted):
        raise absent[0]


def sweep(
    configs: Iterable[Config],
    out: str | Path,
    execution: Execution,
    jobs: int = 1,
    *,
    ray: str | None = None,
    threads: int | None = None,
    report: OnEnd = say_nothing,
) -> list[Status]:
    """Train what has no result yet, ``jobs`` at a time, until ``execution.deadline``.

    Args:
        ray: "local" or the address of a Ray cluster, in the place of this machine's processes.
        threads: CPU threads of each run.
        report: Called as each run ends.

    Returns:
        Where every run stands at the end.
    """
    configs = list(configs)
    check_directories(configs, out)
    failed: dict[str, str] = {}

    def note(outcome: Outcome) -> None:
        if outcome.state == "failed":
            failed[outcome.config.name] = outcome.reason
        report(outcome)

    left = [c for c in configs if look(c, out).result is None]
    if ray is None:
        run_all(left, out, execution, jobs, threads=threads, report=note)
    elif left:
        from padenet.lab.sweep.cluster import run_on_ray

        run_on_ray(left, out, execution, jobs, ray, threads=threads, report=note)
    return [
        replace(s, state="failed", reason=failed[c.name]) if c.name in failed else s
        for c in configs
        for s in [look(c, out)]
    ]


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
