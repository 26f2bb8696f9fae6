"""The paper's pruning figure: accuracy against the fraction of filters removed."""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from padenet.lab.report.cells import Cell
from padenet.lab.report.figures.picture import Picture
from padenet.lab.report.names import COLOURS, DASHES, dataset_title, looks, row_title, title
from padenet.lab.report.pruned import PrunedCell, pruned_cells
from padenet.torch import new_figure, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def pruning_pictures(cells: list[Cell]) -> Iterator[Picture]:
    """One picture, or none without pruned runs."""
    if curves := pruned_cells(cells):
        caption = "Test accuracy by the share of filters removed"
        yield Picture("Pruned nets", caption, "pruning", plot_pruning(curves))


def plot_pruning(curves: list[list[PrunedCell]]) -> "Figure":
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
        tidy(ax, f"{dataset_title(panel[0])}, {title(panel[1])}", ylim=(low, high))
        ax.set_xticks(sorted({p.fraction for c in curves if c[0].key[:2] == panel for p in c}))
        ax.grid(axis="y", color="#e8e8e8", linewidth=0.6)
        ax.set_xlabel("filters removed (%)", fontsize=8)
        ax.legend(frameon=False, fontsize=7)
    axes[0].set_ylabel("test accuracy (%)", fontsize=8)
    return figure


def _limits(points: list[PrunedCell]) -> tuple[float, float]:
    """Around points and bars: without, the line at 0 that ``tidy`` draws would be in sight."""
    known = [(p.mean, p.std or 0.0) for p in points if p.mean is not None] or [(50.0, 50.0)]
    low, high = min(m - s for m, s in known), max(m + s for m, s in known)
    room = max(0.1 * (high - low), 0.5)
    return math.floor(low - room), math.ceil(high + room)
