"""``plot``: the units of a model, with what they started from and what they see."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from padenet.core.fitting.samples import check_interval
from padenet.torch.functional import apply
from padenet.torch.nn import PAU, starting_coefficients
from padenet.torch.seeing.finding import Units, find_units
from padenet.torch.seeing.inputs import Histogram, InputHistogram
from padenet.torch.seeing.style import BLUE, GREY, ORANGE, PALE, new_grid, tidy, wrap

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

POINTS = 601
DRAWS = 2000  # of the noise, for its band
BAND = (0.025, 0.975)
SEEN = 0.03  # noise of a smaller alpha has a band that is no wider than the line
SCALES = (1, 10, 100, 1000)
HIGHEST = 0.45  # of a panel's height, for the fullest bin


def plot(
    model: nn.Module | Units,
    *,
    axes: "Axes | Iterable[Axes] | None" = None,
    inputs: InputHistogram | None = None,
    interval: tuple[float, float] | None = None,
    start: bool = True,
    columns: int | None = None,
) -> "Figure":
    """Draw every unit of a model in a panel of its own.

    Args:
        model: A model with units, a unit, or units by name.
        axes: Where to draw, one for each unit; by default a new figure.
        inputs: Counts of the units' inputs, drawn behind the curves; see ``InputHistogram``.
        interval: (low, high) of x, by default that of ``inputs`` or (-3, 3).
        start: Also draw what each unit started as, where it has moved.
        columns: Panels in a row of a new figure.

    Several groups are thin lines with their median on top. The band of one ``RPAU`` holds 95 % of
    what it gives in training; noise too small to be seen is drawn 10 or more times as wide, and
    its label says so. A new figure has a legend; on given axes ``ax.legend()`` draws one.

    Returns:
        The ``matplotlib`` figure, without a window: ``figure.savefig("units.png")``.
    """
    units = find_units(model)
    if inputs is not None and not isinstance(inputs, InputHistogram):
        kind = type(inputs).__name__
        raise TypeError(f"inputs must be a padenet.InputHistogram, got {kind}. Make one first.")
    if interval is None:
        interval = inputs.interval if inputs else (-3.0, 3.0)
    low, high = check_interval(interval)
    if axes is None:
        figure, panels = new_grid(len(units), columns)
    else:
        panels = list(axes) if isinstance(axes, Iterable) else [axes]
        if len(panels) != len(units):
            raise ValueError(f"{len(panels)} axes were given for {len(units)} units. Give as many.")
        figure = panels[0].get_figure(root=True)  # type: ignore[assignment]
    for (name, unit), ax in zip(units.items(), panels, strict=True):
        counts = inputs[name] if inputs and name in inputs.units else None
        draw_unit(ax, unit, (low, high), counts, start)
        tidy(ax, wrap(name), xlim=(low, high))
    if axes is None:
        add_legend(figure, panels)
    return figure


def draw_unit(
    ax: "Axes",
    unit: PAU,
    interval: tuple[float, float],
    counts: Histogram | None = None,
    start: bool = True,
) -> None:
    """One unit's curve, band, start and histogram on ``ax``."""
    x = np.linspace(*interval, POINTS)
    curves = values(unit, unit.a, unit.b, x)
    if counts is not None:
        _draw_counts(ax, counts)
    if unit.groups == 1 and (alpha := getattr(unit, "alpha", 0.0)):
        scale = band_scale(alpha)
        low, high = _noise_band(unit, scale * alpha, x)
        label = f"{scale} times the noise (95 %)" if scale > 1 else "noise (95 %)"
        ax.fill_between(x, low, high, color=BLUE, alpha=0.22, linewidth=0, label=label)
    if start:
        first = starting_coefficients(unit.init, unit.degrees, unit.spec, unit.aim)
        a, b = (c.to(unit.a.dtype) for c in first)
        old = values(unit, a, b, x)
        if not np.array_equal(np.broadcast_to(old, curves.shape), curves, equal_nan=True):
            look: dict[str, Any] = {"color": ORANGE, "linestyle": (0, (4, 2)), "linewidth": 1.1}
            ax.plot(x, np.median(old, 0), **look, label="start", zorder=2.5)
    if len(curves) > 1:
        faint = max(0.12, min(0.6, 6 / len(curves)))
        ax.plot(x, curves.T, color=BLUE, alpha=faint, linewidth=0.6)
        ax.plot([], [], color=BLUE, alpha=0.5, linewidth=0.6, label="groups")
    label = "unit" if len(curves) == 1 else "median of the groups"
    ax.plot(x, np.median(curves, 0), color=BLUE, linewidth=1.6, label=label, zorder=3)
    if len(curves) > 1 or unit.spec.has_poles:
        ax.set_ylim(find_height(curves))


@torch.no_grad()
def values(unit: PAU, a: torch.Tensor, b: torch.Tensor, x: np.ndarray) -> np.ndarray:
    """F with these coefficients at x, in float64: a row for each group."""
    a, b = (c.detach().cpu().double() for c in (a, b))
    rows = torch.as_tensor(x).expand(len(a) if a.ndim == 2 else 1, -1).contiguous()
    spec = unit.spec._replace(channel_dim=0)
    y = apply(rows, a, b, None, spec).numpy()
    if unit.spec.has_poles:  # the two sides of a pole are not joined
        powers = np.arange(1, b.shape[-1] + 1)
        Q = 1 + (x[:, None] ** powers) @ np.atleast_2d(b.numpy()).T
        crossed = np.diff(np.sign(Q.T), axis=1, append=np.sign(Q.T[:, -1:])) != 0
        y = np.where(crossed | ~np.isfinite(y), np.nan, y)
    return y


def band_scale(alpha: float) -> int:
    """How many times the noise of an RPAU its band shows. It follows from alpha alone, so bands of
    the same alpha can be compared."""
    return next((scale for scale in SCALES if scale * alpha >= SEEN), SCALES[-1])


def _noise_band(unit: PAU, alpha: float, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    a, b = (c.detach().cpu().double() for c in (unit.a, unit.b))
    rows = torch.as_tensor(x).expand(DRAWS, -1).contiguous()
    y = apply(rows, a, b, torch.tensor(0), unit.spec._replace(alpha=alpha))
    low, high = torch.quantile(y, torch.tensor(BAND, dtype=y.dtype), dim=0).numpy()
    return low, high


def _draw_counts(ax: "Axes", counts: Histogram) -> None:
    heights = HIGHEST * counts.counts / max(counts.counts.max(), 1)
    ax.stairs(
        heights,
        counts.edges,
        fill=True,
        color=PALE,
        transform=ax.get_xaxis_transform(),
        zorder=0,
        label="inputs",
    )
    if outside := counts.below + counts.above + counts.nan:
        share = 100 * outside / counts.total
        text = f"{share:.1f} %" if share >= 0.05 else "< 0.1 %"
        low, high = counts.edges[[0, -1]]
        ax.set_xlabel(f"{text} of inputs beyond [{low:g}, {high:g}]", fontsize=6.5, color=GREY)


def find_height(curves: np.ndarray) -> tuple[float, float]:
    """Limits of y that keep a pole, or one group of many, from flattening the rest."""
    finite = curves[np.isfinite(curves)]
    if not finite.size:
        return -1.0, 1.0
    low, high = np.quantile(finite, [0.05, 0.95])
    room = high - low
    low, high = max(finite.min(), low - room), min(finite.max(), high + room)
    margin = max(0.05 * (high - low), 1e-6)
    return float(low - margin), float(high + margin)


def add_legend(figure: "Figure", panels: "list[Axes]") -> None:
    """One legend for all panels, above them, if there is more than one thing to explain."""
    entries: dict[str, Any] = {}
    for ax in panels:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    if len(entries) > 1:
        figure.legend(
            list(entries.values()),
            list(entries),
            loc="outside upper center",
            ncols=len(entries),
            frameon=False,
            fontsize=7.5,
        )
