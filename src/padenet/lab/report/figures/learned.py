"""What the units learned: activations a layer, and the way of their coefficients."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from padenet import PAU, RPAU, plot
from padenet.core import FORMS
from padenet.lab.records.run import Run
from padenet.lab.report.cells import Cell, status
from padenet.lab.report.figures.picture import Picture, file_name
from padenet.lab.report.names import COLOURS, dataset_title, title
from padenet.lab.report.pruned import fraction_of
from padenet.torch import band_scale, new_grid, tidy, wrap

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = 6
LAYERS = 36  # in one figure; the page has all
LARGE = 200.0  # coefficients beyond it would flatten the others


def unit_pictures(cells: list[Cell]) -> Iterator[Picture]:
    """Of every cell with recorded units: what they became, and on which way."""
    for cell in cells:
        run = shown_run(cell)
        if run is None or fraction_of(run):  # the units of a pruned net are much like the whole's
            continue
        caption = _describe(cell, run)
        name = file_name(*cell.key)
        if figure := plot_units(run):
            scale = shown_scale(run)
            wider = f"; band: the noise, {scale} times as wide" if scale > 1 else ""
            yield Picture("Learned activations", caption + wider, f"units-{name}", figure)
        if figure := plot_coefficients(run):
            yield Picture("Coefficients by epoch", caption, f"coefficients-{name}", figure)


def _describe(cell: Cell, run: Run) -> str:
    key = cell.key
    parts = [dataset_title(key.dataset), title(key.net), key.row, f"seed {run.config.seed}"]
    shown, layers = len(shown_layers(run)), len(run.metrics[0].get("units", {}))
    parts += [status(run)] if status(run) != "done" else []
    parts += [f"{shown} of {layers} layers"] if shown < layers else []
    return ", ".join(parts)


def shown_run(cell: Cell) -> Run | None:
    """The run of a cell that its figures show: the first finished with recorded units, or any."""
    able = [r for r in cell.runs if r.metrics and r.metrics[-1].get("units")]
    return min(able, key=lambda r: (status(r) != "done", r.config.seed), default=None)


def shown_layers(run: Run) -> list[str]:
    """All layers, or LAYERS of them at even distances, the first and the last among them."""
    names = list(run.metrics[0].get("units", {}))
    count = min(len(names), LAYERS)
    return [names[round(i * (len(names) - 1) / max(1, count - 1))] for i in range(count)]


def finite_units(metrics: dict[str, Any]) -> bool:
    """Whether an epoch recorded units, all with finite coefficients."""
    flat = [np.ravel(u[k]) for u in metrics.get("units", {}).values() for k in ("a", "b")]
    return bool(flat) and all(
        v is not None and np.isfinite(v) for values in flat for v in values.tolist()
    )


def shown_scale(run: Run) -> int:
    """How many times the noise of an RPAU its bands show; 0 where no band is drawn."""
    alpha = run.config.alpha
    units: dict[str, Any] = next((m["units"] for m in run.metrics if finite_units(m)), {})
    single = any(np.ndim(unit["a"]) == 1 for unit in units.values())
    return band_scale(alpha) if run.config.activation == "rpau" and alpha and single else 0


def plot_units(run: Run) -> "Figure | None":
    """Every layer's activation after the last epoch with finite coefficients, and its start."""
    usable = [m for m in run.metrics if finite_units(m)]
    if not usable:
        return None
    first, last = usable[0]["units"], usable[-1]["units"]
    units = {name: _unit(run, first[name], last[name]) for name in shown_layers(run)}
    return plot(units, columns=min(COLUMNS, len(units)))


@torch.no_grad()
def _unit(run: Run, first: dict[str, Any], last: dict[str, Any]) -> PAU:
    start, now = ([torch.tensor(c[k], dtype=torch.float64) for k in "ab"] for c in (first, last))
    form = run.config.form
    options: Any = {
        "form": form,
        "degrees": FORMS[form].degrees(now[0].shape[-1], now[1].shape[-1]),
        "groups": len(now[0]) if now[0].ndim == 2 else 1,
        "dtype": torch.float64,
    }
    noisy = run.config.activation == "rpau"
    init = (start[0], start[1])
    unit = RPAU(init, alpha=run.config.alpha, **options) if noisy else PAU(init, **options)
    for parameter, value in zip((unit.a, unit.b), now, strict=True):
        parameter.copy_(value)
    return unit


def plot_coefficients(run: Run) -> "Figure | None":
    """Every coefficient by epoch, a panel a layer; with groups, their means."""
    usable = [m for m in run.metrics if finite_units(m)]
    if not usable:
        return None
    epochs = [m["epoch"] for m in usable]
    names = shown_layers(run)
    figure, panels = new_grid(len(names), min(COLUMNS, len(names)))
    for name, ax in zip(names, panels, strict=True):
        for key, style in (("a", "-"), ("b", (0, (4, 1.5)))):
            ways = np.array([_means(m["units"][name][key]) for m in usable]).clip(-LARGE, LARGE)
            first = 0 if key == "a" or FORMS[run.config.form].constant else 1
            for k, way in enumerate(ways.T):
                colour = COLOURS[(k + first) % len(COLOURS)]
                label = f"${key}_{k + first}$"
                ax.plot(epochs, way, color=colour, linestyle=style, linewidth=1.2, label=label)
        tidy(ax, wrap(name))
    for ax in panels[-min(COLUMNS, len(names)) :]:
        ax.set_xlabel("epoch", fontsize=7.5)
    handles, labels = panels[0].get_legend_handles_labels()
    look: dict[str, Any] = {"ncols": 10, "frameon": False, "fontsize": 7.5, "columnspacing": 1.2}
    figure.legend(handles, labels, loc="outside upper center", **look)
    return figure


def _means(coefficients: Any) -> np.ndarray:
    return np.atleast_2d(np.array(coefficients, float)).mean(0)
