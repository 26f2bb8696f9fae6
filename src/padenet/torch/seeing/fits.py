"""A fit beside its target with the error below, and all stored starts beside theirs."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from padenet.core.arrays import evaluate
from padenet.core.fitting import Fit
from padenet.core.fitting.samples import call, check_interval
from padenet.core.forms import Spec
from padenet.core.starting.aims import AIMS, reach
from padenet.core.starting.targets import TARGETS
from padenet.torch.seeing.finding import stored_starts
from padenet.torch.seeing.style import BLACK, BLUE, GREY, ORANGE, PALE, new_figure, new_grid, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

POINTS = 1001
DASHED = (0, (4, 2))


def plot_fit(
    found: Fit, target: Callable[[Any], Any] | tuple[Any, Any], name: str = "f"
) -> "Figure":
    """``found`` and the function or table (x, y) that it is near, and the error below.

    Where the aim looks beyond the interval, so does the figure; there the ground is grey.
    """
    beyond = callable(target) and found.aim in AIMS and AIMS[found.aim].beyond
    span = reach(found.interval) if beyond else found.interval
    if callable(target):
        x = np.linspace(*span, POINTS)
        y = call(target, x)
    else:
        x, y = (np.asarray(v, float) for v in target)
        inside = (x >= found.interval[0]) & (x <= found.interval[1])
        order = np.argsort(x[inside], kind="stable")
        x, y = x[inside][order], y[inside][order]
    near = _values(found, x)
    figure = new_figure(4.6, 4.2)
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[2, 1])
    points = dict(marker=".", markersize=3, linestyle="none") if not callable(target) else {}
    look: dict[str, Any] = {"linestyle": DASHED, "linewidth": 1.4, **points}
    fine = np.linspace(*span, POINTS)
    m, n = found.degrees
    top.plot(fine, _values(found, fine), color=BLUE, linewidth=2, label=f"fit, degrees ({m}, {n})")
    top.plot(x, y, color=ORANGE, **look, label=name)
    top.legend(frameon=False, fontsize=8)
    tidy(top, "", xlim=span)
    top.set_ylabel("F(x)", fontsize=8)
    bottom.plot(x, near - y, color=BLUE, linewidth=1, **{**points, "linestyle": "-"})
    for ax in (top, bottom):
        _shade_outside(ax, found.interval, span)
    for level in (-found.max_error, found.max_error):
        bottom.axhline(level, color=GREY, linewidth=0.7, linestyle=DASHED)
    tidy(bottom, f"error: rms {found.rms:.3g}, max {found.max_error:.3g} (dashed)")
    bottom.ticklabel_format(axis="y", style="sci", scilimits=(-2, 3))
    bottom.yaxis.get_offset_text().set_fontsize(7)
    bottom.set_xlabel("x", fontsize=8)
    bottom.set_ylabel("F(x) − f(x)", fontsize=8)
    figure.align_ylabels()
    return figure


def plot_starts(
    interval: tuple[float, float] = (-12.0, 12.0), columns: int = 6, aim: str | None = None
) -> "Figure":
    """The stored starts beside the activations they approximate, with their errors.

    These are the RMS on [-3, 3], where the ground is white, and the greatest on [-10, 10].
    """
    low, high = check_interval(interval)
    x = np.linspace(low, high, POINTS)
    starts = [s for s in stored_starts(aim) if s.aim != "paper"]
    figure, panels = new_grid(len(starts), columns)
    for start, ax in zip(starts, panels, strict=True):
        ax.plot(x, _values(start, x), color=BLUE, linewidth=1.8, label="start, F(x)")
        target = TARGETS[start.target](x)
        ax.plot(x, target, color=BLACK, linewidth=1.1, linestyle=DASHED, label="activation")
        _shade_outside(ax, start.interval, (low, high))
        errors = f"{start.aim}   rms {start.rms:.1e}   to ±10 {start.errors.to_10:.1e}"
        errors = "exact" if start.max_error == 0 else errors
        tidy(ax, xlim=(low, high))
        ax.set_title(start.name, fontsize=8.5, fontweight="bold", pad=12.5)
        ax.text(0.5, 1.02, errors, transform=ax.transAxes, fontsize=6.5, ha="center", va="bottom")
    handles, labels = panels[0].get_legend_handles_labels()
    look: dict[str, Any] = {"ncols": 2, "frameon": False, "fontsize": 8}
    figure.legend(handles, labels, loc="outside upper center", **look)
    return figure


def _shade_outside(ax: "Axes", interval: tuple[float, float], span: tuple[float, float]) -> None:
    for low, high in ((span[0], interval[0]), (interval[1], span[1])):
        if low < high:
            ax.axvspan(low, high, color=PALE, alpha=0.35, linewidth=0, zorder=0)


def _values(near: Any, x: np.ndarray) -> np.ndarray:
    return evaluate(x, near.a, near.b, Spec(near.form, getattr(near, "q", 1.0)))
