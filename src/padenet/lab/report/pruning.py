"""The paper's pruning figure and table: accuracy against the fraction of filters removed."""

import json
import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from padenet.lab.prune.lottery import whole_label
from padenet.lab.records.store import Run
from padenet.lab.report.cells import final, status
from padenet.lab.report.names import COLOURS, DASHES, looks, rank, row_title, title
from padenet.lab.report.table import (
    Column,
    Entry,
    Table,
    count,
    digits,
    spread,
    text_columns,
)
from padenet.torch.seeing.style import new_figure, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "pruning"


class Key(NamedTuple):
    """What was pruned; ``label`` is that of the whole net's runs."""

    dataset: str
    net: str
    activation: str
    label: str


@dataclass(frozen=True)
class Point:
    """The runs, a seed each, of one net without ``fraction`` percent of its filters."""

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


def pruning_curves(runs: Iterable[Run]) -> list[list[Point]]:
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
        [Point(k, f, tuple(stages[k, f])) for k, f in sorted(stages) if k == key] for key in order
    ]


def fraction_of(run: Run) -> float:
    """In percent: 0 for a whole net."""
    known = json.loads(run.pruning) if run.pruning else (run.result or {}).get("pruning", {})
    return float(known.get("fraction", 0))


def pruning_table(curves: list[list[Point]]) -> Table:
    """A row a net, activation and fraction."""
    rows, records = [], []
    for curve in curves:
        first = next(p for p in curve if p.fraction)
        for point in curve:
            record = _record(point, first)
            records.append(record)
            key, faster = point.key, record["speedup"]
            rows.append(
                [
                    *map(Entry, (title(key.dataset), title(key.net))),
                    Entry(row_title(key.activation, key.label)),
                    Entry(f"{point.fraction:g}", point.fraction),
                    Entry(spread(point.mean, point.std), point.mean, note=_note(point)),
                    *(_entry(record[n]) for n in ("parameters", "multiplications", "bytes")),
                    Entry(digits(record["milliseconds"]), record["milliseconds"]),
                    Entry(digits(faster), faster),
                ]
            )
    return Table(
        name=NAME,
        title="Pruned nets",
        caption=(
            "Pruned nets: test accuracy in percent after training again from the first weights, "
            "by percent of the filters of each convolution that were removed. Mean ± sample std "
            "over seeds where there are several. Bytes of the saved net, multiplications of one "
            f"image, {_batch(curves)}"
        ),
        columns=[
            *text_columns("data", "net", "activation"),
            *map(Column, ("removed", "accuracy", "parameters", "multiplications", "bytes")),
            *map(Column, ("ms", "times as fast")),
        ],
        rows=rows,
        records=records,
    )


def _record(point: Point, pruned: Point) -> dict[str, Any]:
    """The costs of a whole net are those that its first pruned stage was compared with."""
    names = ("parameters", "multiplications", "bytes", "milliseconds")
    if point.fraction:
        costs = {n: point.cost(n) for n in names}
        ours, theirs = costs["milliseconds"], point.cost("whole_milliseconds")
    else:
        costs = {n: pruned.cost(f"whole_{n}") for n in names}
        ours = theirs = costs["milliseconds"]
    return {
        **point.key._asdict(),
        "fraction": point.fraction,
        "runs": len(point.runs),
        "done": len(point.accuracies),
        "mean": point.mean,
        "std": point.std,
        **costs,
        "speedup": theirs / ours if ours and theirs else None,
    }


def _entry(value: float | None) -> Entry:
    return Entry(digits(None)) if value is None else Entry(f"{value:,.0f}", value)


def _note(point: Point) -> str:
    lost = len(point.runs) - len(point.accuracies)
    return f"{lost} of {len(point.runs)} lost" if lost else ""


def _batch(curves: list[list[Point]]) -> str:
    pruned = [p for curve in curves for p in curve if p.fraction]
    images = {int(p.cost("images") or 0) for p in pruned}
    threads = {int(p.cost("threads") or 0) for p in pruned}
    batch = f" of {images.pop()} images" if len(images) == 1 else ""
    on = f" with {count(threads.pop(), 'thread')}" if len(threads) == 1 else ""
    return f"ms of an inference{batch} on the CPU{on}, beside the whole net."


def plot_pruning(curves: list[list[Point]]) -> "Figure":
    """A panel a data set and net, a line an activation; the whole net is the point at 0."""
    panels = list(dict.fromkeys(curve[0].key[:2] for curve in curves))
    figure = new_figure(max(4.2, 3.4 * len(panels)), 3.0)
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    look = looks(list(dict.fromkeys((c[0].key.activation, c[0].key.label) for c in curves)))
    for ax, panel in zip(axes, panels, strict=True):
        for curve in curves:
            key = curve[0].key
            if key[:2] != panel:
                continue
            colour, dash = look[key.activation, key.label]
            points = [(p.fraction, p.mean, p.std or 0.0) for p in curve if p.mean is not None]
            if points:
                x, y, std = zip(*points, strict=True)
                ax.errorbar(
                    x,
                    y,
                    yerr=std if any(std) else None,
                    color=COLOURS[colour],
                    linestyle=(0, DASHES[dash]) if DASHES[dash] else "-",
                    marker="o",
                    markersize=3,
                    linewidth=1.4,
                    capsize=2,
                    label=row_title(key.activation, key.label),
                )
        low, high = _limits([p for c in curves if c[0].key[:2] == panel for p in c])
        tidy(ax, f"{title(panel[0])}, {title(panel[1])}", ylim=(low, high))
        ax.set_xticks(sorted({p.fraction for c in curves if c[0].key[:2] == panel for p in c}))
        ax.grid(axis="y", color="#e8e8e8", linewidth=0.6)
        ax.set_xlabel("filters removed (%)", fontsize=8)
        ax.legend(frameon=False, fontsize=7)
    axes[0].set_ylabel("test accuracy (%)", fontsize=8)
    return figure


def _limits(points: list[Point]) -> tuple[float, float]:
    """Around points and bars: without, the line at 0 that ``tidy`` draws would be in sight."""
    known = [(p.mean, p.std or 0.0) for p in points if p.mean is not None] or [(50.0, 50.0)]
    low, high = min(m - s for m, s in known), max(m + s for m, s in known)
    room = max(0.1 * (high - low), 0.5)
    return math.floor(low - room), math.ceil(high + room)
