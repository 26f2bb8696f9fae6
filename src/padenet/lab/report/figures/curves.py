"""Learning curves: test accuracy and training loss by epoch, a line an activation."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from padenet.lab.records.config import UNITS
from padenet.lab.records.run import Run
from padenet.lab.report.cells import Cell, number, rows_of, status
from padenet.lab.report.figures.picture import Picture, file_name
from padenet.lab.report.names import COLOURS, DASHES, dataset_title, looks, title
from padenet.torch import GREY, new_figure, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANELS = {"test_accuracy": "test accuracy (%)", "train_loss": "training loss"}
BANDS = 4  # more lines than this, and only PAU and RPAU have bands
SETTLED = 0.1  # share of the epochs after which curves decide about the height of a panel


def curve_pictures(cells: list[Cell]) -> Iterator[Picture]:
    """One a data set and net."""
    look = looks(rows_of(cells))
    for dataset, net in dict.fromkeys(c.key[:2] for c in cells):
        members = [c for c in cells if c.key[:2] == (dataset, net)]
        if any(run.metrics for c in members for run in c.runs):
            caption = f"{dataset_title(dataset)}, {title(net)}"
            name = file_name("curves", dataset, net)
            yield Picture("Learning curves", caption, name, plot_curves(members, look))


def plot_curves(cells: list[Cell], look: dict[tuple[str, str], tuple[int, int]]) -> "Figure":
    """The cells of one data set and net: mean over finished seeds, with a band of ± std.

    ``look`` is that of ``names.looks``. A seed that diverged or failed is a thin line of its own
    that ends in ×, an unfinished one a thin line: neither is part of a mean.
    """
    figure = new_figure(9.5, 3.9)
    axes = figure.subplots(1, len(PANELS))
    for ax, (measure, label) in zip(axes, PANELS.items(), strict=True):
        for cell in cells:
            colour, dash = look[cell.key.activation, cell.key.label]
            banded = cell.key.activation in UNITS or len(cells) <= BANDS
            _draw(ax, cell, measure, COLOURS[colour], DASHES[dash], banded)
        tidy(ax)
        _limit(ax, cells, measure)
        ax.grid(axis="y", color="#e8e8e8", linewidth=0.6)
        ax.set_axisbelow(True)
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.set_xlabel("epoch", fontsize=8)
        ax.set_ylabel(label, fontsize=8)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside right center",
        frameon=False,
        fontsize=7.5,
        handlelength=2.8,
        labelspacing=0.55,
    )
    return figure


def curve(run: Run, measure: str) -> tuple[np.ndarray, np.ndarray]:
    """Epochs and values, NaN where there is none."""
    values = [number(m.get(measure)) for m in run.metrics]
    epochs = [m["epoch"] for m in run.metrics]
    return np.array(epochs), np.array([np.nan if v is None else v for v in values])


def mean_curve(cell: Cell, measure: str) -> tuple[np.ndarray, ...] | None:
    """Epochs, means, and the ends of the band, over the seeds that were trained to the end.

    The band is mean ± sample std, but ends at the lowest and the highest seed: a loss stays above
    0, an accuracy below 100.
    """
    done = [dict(zip(*curve(r, measure), strict=True)) for r in cell.runs if status(r) == "done"]
    if not done:
        return None
    epochs = sorted(set.intersection(*(set(d) for d in done)))
    table = np.array([[d[e] for e in epochs] for d in done])
    mean = table.mean(0)
    std = table.std(0, ddof=1) if len(done) > 1 else np.zeros(len(epochs))
    low, high = np.maximum(mean - std, table.min(0)), np.minimum(mean + std, table.max(0))
    return np.array(epochs), mean, low, high


def _draw(
    ax: "Axes", cell: Cell, measure: str, colour: str, dash: tuple[float, ...], banded: bool
) -> None:
    strong = cell.key.activation in UNITS
    line: dict[str, Any] = {
        "color": colour,
        "linewidth": 1.9 if strong else 1.1,
        "linestyle": (0, dash) if dash else "-",
        "zorder": 3 if strong else 2,
    }
    found = mean_curve(cell, measure)
    if found is None:
        ax.plot([], [], **line, label=cell.key.row)
    else:
        epochs, mean, low, high = found
        if max(epochs) <= 1:  # a line needs two points in sight
            line |= {"marker": "o", "markersize": 4}
        ax.plot(epochs, mean, **line, label=cell.key.row)
        if banded:
            ax.fill_between(epochs, low, high, color=colour, alpha=0.16, linewidth=0)
    for run in cell.runs:
        kind = status(run)
        epochs, values = curve(run, measure)
        known = np.flatnonzero(np.isfinite(values))
        if kind == "done" or not len(known):
            continue
        ax.plot(epochs, values, color=colour, linewidth=0.7, alpha=0.8)
        if kind != "unfinished":
            last = known[-1]
            ax.plot(epochs[last], values[last], "x", color=colour, markersize=5, zorder=4)


def _limit(ax: "Axes", cells: list[Cell], measure: str) -> None:
    """Show where the curves end up, not the first epochs; a loss on a logarithmic axis."""
    ends: list[float] = []
    for run in (r for c in cells for r in c.runs if status(r) == "done"):
        epochs, values = curve(run, measure)
        settled = values[(epochs >= max(1, SETTLED * run.config.epochs)) & np.isfinite(values)]
        ends += settled.tolist()
    if not ends:
        ax.text(0.5, 0.5, "no finished run", transform=ax.transAxes, ha="center", color=GREY)
        return
    if measure == "train_loss" and min(ends) > 0:
        ax.set_yscale("log")
        ax.tick_params(which="minor", labelsize=7, width=0.4, length=1.5)
        for put in (ax.yaxis.set_major_formatter, ax.yaxis.set_minor_formatter):
            put(_plain_number)
        ax.set_ylim(min(ends) / 1.15, max(ends) * 1.15)
        return
    low, high = np.quantile(ends, 0.05), max(ends)
    room = max(high - low, 0.1)
    ax.set_ylim(low - 0.08 * room, high + 0.08 * room)


def _plain_number(value: float, _: Any) -> str:
    """1, 2 and 5 times a power of ten; the other lines of a logarithmic axis go without."""
    return f"{value:g}" if f"{value:.0e}"[0] in "125" else ""
