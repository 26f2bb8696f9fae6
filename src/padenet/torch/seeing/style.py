"""What all figures share: colours that colour-blind readers tell apart, grids, files."""

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from padenet.core.support.extras import require
from padenet.core.support.files import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE, BLACK, GREY = "#0072B2", "#D55E00", "#1a1a1a", "#6e6e6e"
PALE = "#d3dbe2"
PANEL = (2.3, 1.75)  # inches
DPI = 130


def new_figure(width: float, height: float) -> "Figure":
    figure = require("matplotlib.figure", "plots").Figure
    made: Figure = figure((width, height), dpi=DPI, layout="constrained", facecolor="white")
    return made


def new_grid(count: int, columns: int | None = None) -> tuple["Figure", "list[Axes]"]:
    """A figure with ``count`` panels in rows, wider than high unless told how many columns."""
    columns = min(count, columns or max(4, math.ceil(math.sqrt(count))))
    rows = -(-count // columns)
    width, height = PANEL
    figure = new_figure(max(columns * width, 3.4), rows * height + 0.55)
    grid = figure.subplots(rows, columns, squeeze=False)
    axes = list(grid.flat)
    for ax in axes[count:]:
        ax.remove()
    return figure, axes[:count]


def tidy(ax: "Axes", title: str = "", **settings: Any) -> None:
    """Thin lines, small print, the axes through 0 in pale grey."""
    ax.spines[["top", "right"]].set_visible(False)
    for spine in ax.spines.values():
        spine.set(linewidth=0.6, color=GREY)
    ax.tick_params(labelsize=7, width=0.6, length=2.5, color=GREY)
    ax.axhline(0, color=PALE, linewidth=0.6, zorder=0.5)
    ax.axvline(0, color=PALE, linewidth=0.6, zorder=0.5)
    ax.set_title(title, fontsize=7.5)
    ax.set(**settings)


def wrap(name: str, width: int = 30) -> str:
    """A dotted name in lines of about ``width`` characters."""
    lines = [""]
    for part in name.replace(".", ".\0").split("\0"):
        if lines[-1] and len(lines[-1] + part) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


def save_figure(figure: "Figure", path: str | os.PathLike[str]) -> None:
    """Write the figure in the format that the ending of ``path`` names, without a date: the same
    bytes each time as PNG, PDF or SVG."""
    ending = Path(path).suffix.lstrip(".").lower()
    known = sorted(figure.canvas.get_supported_filetypes())
    if ending not in known:
        raise ValueError(f"{path} names no format of a picture. Use one of: {', '.join(known)}.")
    dates = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}
    salt = require("matplotlib", "plots").rc_context({"svg.hashsalt": "padenet"})
    with replacing(path) as temporary, salt:
        figure.savefig(temporary, format=ending, dpi=figure.dpi, metadata=dates.get(ending))
