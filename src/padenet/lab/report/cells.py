"""Runs gathered into cells: one cell a data set, net, activation and label, one run a seed."""

import math
import statistics
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from padenet.lab.records.run import Run
from padenet.lab.report.names import rank, row_title


class Key(NamedTuple):
    dataset: str
    net: str
    activation: str
    label: str

    @property
    def row(self) -> str:
        return row_title(self.activation, self.label)


@dataclass(frozen=True)
class Summary:
    """Over the seeds that were trained to the end; ``lost`` counts the others by what happened."""

    values: list[float]
    runs: int
    lost: dict[str, int]

    @property
    def mean(self) -> float | None:
        return statistics.fmean(self.values) if self.values else None

    @property
    def std(self) -> float | None:
        """Of the sample, with n - 1; None for fewer than two values."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    @property
    def best(self) -> float | None:
        return max(self.values, default=None)

    @property
    def broke(self) -> bool:
        """Whether a seed diverged or failed, so that the mean is one of survivors."""
        return bool(self.lost.get("diverged") or self.lost.get("failed"))


@dataclass(frozen=True)
class Cell:
    key: Key
    runs: tuple[Run, ...]  # by seed

    def values(self, measure: str = "test_accuracy") -> dict[int, float]:
        """The value after the last epoch of each seed that was trained to the end."""
        found = {r.config.seed: final(r, measure) for r in self.runs if status(r) == "done"}
        return {seed: value for seed, value in found.items() if value is not None}

    def summary(self, measure: str = "test_accuracy") -> Summary:
        kinds = Counter(status(run) for run in self.runs)
        lost = {k: kinds[k] for k in ("diverged", "failed", "unfinished") if kinds[k]}
        return Summary(list(self.values(measure).values()), len(self.runs), lost)


def number(value: Any) -> float | None:
    """The value if it is a finite number."""
    usable = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if usable and math.isfinite(value) else None


def final(run: Run, measure: str) -> float | None:
    """From the result or, where it does not have the measure, from the last epoch."""
    result = run.result or {}
    last = run.metrics[-1] if run.metrics else {}
    return number(result.get(measure, last.get(measure)))


def status(run: Run) -> str:
    """ "done", "diverged", "failed" or "unfinished"; done without an accuracy is failed."""
    if run.result is None:
        return "failed" if run.failure else "unfinished"
    found = str(run.result.get("status", "failed"))
    return "failed" if found == "done" and final(run, "test_accuracy") is None else found


def collect(runs: Iterable[Run]) -> list[Cell]:
    """All cells in the order of the tables. Runs of a cell may differ in nothing but the seed."""
    found: dict[Key, list[Run]] = {}
    for run in runs:
        c = run.config
        found.setdefault(Key(c.dataset, c.net, c.activation, c.label), []).append(run)
    for members in found.values():
        _check_alike(members)
    order = sorted(found, key=lambda k: (rank(k.dataset), rank(k.net), rank(k.activation), k.label))
    return [Cell(k, tuple(sorted(found[k], key=lambda r: r.config.seed))) for k in order]


def _check_alike(members: list[Run]) -> None:
    first = members[0].config
    settings = {**asdict(first), "seed": None}
    for run in members[1:]:
        others = {**asdict(run.config), "seed": None}
        differing = [name for name in settings if settings[name] != others[name]]
        if differing:
            name = differing[0]
            raise ValueError(
                f"runs {first.name} and {run.config.name} would be averaged but differ in {name} "
                f"({settings[name]!r} and {others[name]!r}). Give one of them a label, or report "
                "on them apart."
            )


def shared(cells: Iterable[Cell], part: str) -> list[str]:
    """The different values of a part of the keys, in order of appearance."""
    return list(dict.fromkeys(getattr(cell.key, part) for cell in cells))


def rows_of(cells: Iterable[Cell]) -> list[tuple[str, str]]:
    """The different (activation, label) in the order of the tables."""
    found = {(c.key.activation, c.key.label) for c in cells}
    return sorted(found, key=lambda row: (rank(row[0]), row[1]))
