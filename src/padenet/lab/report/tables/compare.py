"""PAU and RPAU against every baseline: wins by cell, and paired differences over seeds."""

import statistics
from collections.abc import Iterator
from dataclasses import dataclass, replace

from padenet.core import require
from padenet.lab.records.config import UNITS
from padenet.lab.report.cells import Cell, Key, Summary
from padenet.lab.report.tables.table import DIGITS

CONFIDENCE = 0.95
SIGNIFICANT = 0.05


@dataclass
class Wins:
    """In how many cells, each a data set and net, the unit beats the baseline."""

    unit: str
    baseline: str
    better: int = 0
    equal: int = 0
    worse: int = 0
    open: int = 0  # not compared

    def count(self, outcome: str) -> None:
        setattr(self, outcome, getattr(self, outcome) + 1)


@dataclass(frozen=True)
class Difference:
    """Unit minus baseline over the seeds that both trained to the end."""

    unit: Key
    baseline: Key
    seeds: int
    recorded: int  # seeds for which either has a run
    mean: float | None
    interval: tuple[float, float] | None = None  # of the mean, at CONFIDENCE
    p: float | None = None  # of the paired t-test, two-sided
    p_holm: float | None = None
    broke: bool = False  # a side has seeds that diverged or failed

    @property
    def significant(self) -> bool:
        return self.p_holm is not None and self.p_holm < SIGNIFICANT

    @property
    def outcome(self) -> str:
        """Of the test, where there is one and no side is left with its survivors."""
        if self.broke or self.p_holm is None or self.mean is None:
            return "open"
        if not self.significant:
            return "equal"
        return "better" if self.mean > 0 else "worse"


def pairs(cells: list[Cell]) -> Iterator[tuple[Cell, Cell]]:
    """Each unit with each baseline of its data set and net.

    A labelled unit meets the baselines with its label or, where there are none, those without.
    """
    for unit in (c for c in cells if c.key.activation in UNITS):
        others = [c for c in cells if c.key[:2] == unit.key[:2] and c.key.activation not in UNITS]
        alike = [c for c in others if c.key.label == unit.key.label]
        for other in alike or [c for c in others if not c.key.label]:
            yield unit, other


def count_wins(cells: list[Cell]) -> list[Wins]:
    """By the mean; a side that lost seeds is worse than one that lost none."""
    found: dict[tuple[str, str], Wins] = {}
    for unit, other in pairs(cells):
        names = (unit.key.row, other.key.row)
        wins = found.setdefault(names, Wins(*names))
        left, right = unit.summary(), other.summary()
        wins.count(_outcome(left, right))
    return list(found.values())


def count_decided(differences: list[Difference]) -> list[Wins]:
    """By the tests: what they do not tell apart is equal, what they cannot compare is open."""
    found: dict[tuple[str, str], Wins] = {}
    for d in differences:
        names = (d.unit.row, d.baseline.row)
        found.setdefault(names, Wins(*names)).count(d.outcome)
    return list(found.values())


def _outcome(left: Summary, right: Summary) -> str:
    if any(side.mean is None and not side.broke for side in (left, right)):
        return "open"
    if left.broke != right.broke:
        return "worse" if left.broke else "better"
    if left.broke or left.mean is None or right.mean is None:
        return "open"
    a, b = round(left.mean, DIGITS), round(right.mean, DIGITS)
    return "equal" if a == b else "better" if a > b else "worse"


def paired_differences(cells: list[Cell]) -> list[Difference]:
    """Every difference, with Holm's correction over all tests of the report."""
    found = [_difference(unit, other) for unit, other in pairs(cells)]
    tested = [d.p for d in found if d.p is not None]
    corrected = iter(holm(tested))
    return [replace(d, p_holm=next(corrected)) if d.p is not None else d for d in found]


def _difference(unit: Cell, other: Cell) -> Difference:
    left, right = unit.values(), other.values()
    both = [left[seed] - right[seed] for seed in left if seed in right]
    recorded = len({r.config.seed for cell in (unit, other) for r in cell.runs})
    broke = unit.summary().broke or other.summary().broke
    mean = statistics.fmean(both) if both else None
    found = Difference(unit.key, other.key, len(both), recorded, mean, broke=broke)
    if len(both) < 2 or len({round(d, 9) for d in both}) == 1:  # the t-test needs a spread
        return found
    test = require("scipy.stats", "plots").ttest_1samp(both, 0.0)
    low, high = test.confidence_interval(CONFIDENCE)
    return replace(found, interval=(float(low), float(high)), p=float(test.pvalue))


def holm(p: list[float]) -> list[float]:
    """Holm's step-down correction: the i-th smallest of n times n - i, never falling, at most 1."""
    corrected = [0.0] * len(p)
    largest = 0.0
    for i, k in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        largest = max(largest, min(1.0, (len(p) - i) * p[k]))
        corrected[k] = largest
    return corrected
