"""Pruned runs gathered: what a net keeps of its accuracy without a fraction of its filters."""

import json
import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from padenet.lab.records.labels import whole_label
from padenet.lab.records.run import Run
from padenet.lab.report.cells import Cell, Key, final, status
from padenet.lab.report.names import rank


@dataclass(frozen=True)
class PrunedCell:
    """The runs, a seed each, of one net without ``fraction`` percent of its filters.

    The label in ``key`` is that of the whole net's runs.
    """

    key: Key
    fraction: float
    runs: tuple[Run, ...]

    @property
    def accuracies(self) -> list[float]:
        found = [final(r, "test_accuracy") for r in self.runs if status(r) == "done"]
        return [value for value in found if value is not None]

    @property
    def mean(self) -> float | None:
        return statistics.fmean(self.accuracies) if self.accuracies else None

    @property
    def std(self) -> float | None:
        return statistics.stdev(self.accuracies) if len(self.accuracies) > 1 else None

    def cost(self, name: str) -> float | None:
        """Over the seeds; that of a whole net is known from the pruned ones."""
        found = [(r.result or {}).get("pruning", {}).get(name) for r in self.runs]
        known = [value for value in found if value is not None]
        if len(set(known)) > 1:
            return statistics.fmean(known)
        return known[0] if known else None


def pruning_curves(runs: Iterable[Run]) -> list[list[PrunedCell]]:
    """Curves of points by rising fraction: the pruned runs and the whole nets that they belong to.

    The result of a pruned run carries its fraction and its costs, so a packed file will do.
    """
    runs = list(runs)
    stages: dict[tuple[Key, float], list[Run]] = {}
    for run in runs:
        fraction = fraction_of(run)
        if fraction:
            c = run.config
            key = Key(c.dataset, c.net, c.activation, whole_label(c.label, fraction))
            stages.setdefault((key, fraction), []).append(run)
    keys = {key for key, _ in stages}
    for run in runs:
        c = run.config
        key = Key(c.dataset, c.net, c.activation, c.label)
        if key in keys and fraction_of(run) == 0:
            stages.setdefault((key, 0.0), []).append(run)
    order = sorted(keys, key=lambda k: (*map(rank, k[:3]), k.label))
    return [
        [PrunedCell(k, f, tuple(stages[k, f])) for k, f in sorted(stages) if k == key]
        for key in order
    ]


def pruned_cells(cells: Iterable[Cell]) -> list[list[PrunedCell]]:
    """``pruning_curves`` of the runs of all cells."""
    return pruning_curves(run for cell in cells for run in cell.runs)


def fraction_of(run: Run) -> float:
    """In percent: 0 for a whole net."""
    known = json.loads(run.pruning) if run.pruning else (run.result or {}).get("pruning", {})
    return float(known.get("fraction", 0))
