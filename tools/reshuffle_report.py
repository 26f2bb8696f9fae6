"""What tools/reshuffle.py says of its records: which units collapsed, a table, a figure."""

import math
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from reshuffle_records import LAST, Run

from padenet.torch import GREY, new_figure, save_figure

NAMES = {"relu": "ReLU", "gelu": "GELU", "tanh": "tanh", "swish": "SiLU"}
COLORS = {"relu": "#0072B2", "gelu": "#D55E00", "tanh": "#009E73", "swish": "#CC79A7"}
RATES = {"sgd": 0.01, "adamw": 0.001}
TITLES = {"sgd": "SGD 0.9", "adamw": "AdamW"}
KINDS = {"shuffled": "labels shuffled", "renamed": "classes renamed"}
POINTS = 5.0  # of accuracy below the activation's worst seed, or below a seed's own best task


@dataclass(frozen=True)
class Pair:
    """An activation and the unit in its place, with the same seeds."""

    kind: str
    optimizer: str
    activation: str
    own: list[Run]
    unit: list[Run]

    @property
    def collapsed(self) -> int:
        """Seeds of the unit far below the activation's worst, or not finite."""
        worst = min(r.last if math.isfinite(r.last) else -math.inf for r in self.own)
        return sum(not (math.isfinite(r.last) and r.last >= worst - POINTS) for r in self.unit)


def fallen(runs: list[Run]) -> int:
    """How many end far below their own best task, or not finite."""
    return sum(not (math.isfinite(r.last) and r.last >= max(r.accuracies) - POINTS) for r in runs)


def pair_up(runs: list[Run]) -> list[Pair]:
    pairs = []
    for kind in KINDS:
        for optimizer in RATES:
            for activation in NAMES:
                here = (kind, optimizer, activation)
                some = [r for r in runs if (r.kind, r.optimizer, r.activation) == here]
                own, unit = ([r for r in some if r.unit == u] for u in (False, True))
                if own and unit:
                    pairs.append(Pair(*here, own, unit))
    return pairs


def table(pairs: list[Pair]) -> str:
    """Markdown: accuracy in percent on the training images, mean over seeds."""
    lines = [
        "| labels | optimizer | activation | its first task | its last five "
        "| unit first | unit last five | seeds collapsed |",
        "|---|---|---|---:|---:|---:|---:|---:|",
    ]
    for p in pairs:
        values = [mean(r.first for r in p.own), mean(r.last for r in p.own)]
        values += [mean(r.first for r in p.unit), mean(r.last for r in p.unit)]
        cells = " | ".join(f"{v:.1f}" if math.isfinite(v) else "diverged" for v in values)
        lines.append(
            f"| {p.kind} | {TITLES[p.optimizer]}, {p.own[0].lr:g} | {NAMES[p.activation]} "
            f"| {cells} | {p.collapsed} of {len(p.unit)} |"
        )
    return "\n".join(lines)


def summary(pairs: list[Pair]) -> str:
    lines = []
    for kind in KINDS:
        own = [r for p in pairs if p.kind == kind for r in p.own]
        unit = [r for p in pairs if p.kind == kind for r in p.unit]
        lines.append(
            f"{kind}: more than {POINTS:g} points below their own best task in the last {LAST}: "
            f"{fallen(own)} of {len(own)} runs of the activations, "
            f"{fallen(unit)} of {len(unit)} of the units"
        )
    return "\n".join(lines)


def provenance(record: dict[str, Any], runs: list[Run]) -> str:
    m = record["machine"]
    minutes = sum(r.seconds for r in runs) / 60
    return (
        f"{len(runs)} runs, {minutes:.0f} min of CPU time. {m['device']}, "
        f"{m['threads']} thread, torch {m['torch']}, commit {m['commit']}"
    )


def draw(pairs: list[Pair], path: Path) -> None:
    """A panel for each kind of change and optimiser: accuracy over tasks."""
    figure = new_figure(8.6, 5.6)
    axes = figure.subplots(len(KINDS), len(RATES), sharex=True, sharey=True, squeeze=False)
    for row, (kind, what) in zip(axes, KINDS.items(), strict=True):
        for ax, (optimizer, title) in zip(row, TITLES.items(), strict=True):
            here = [p for p in pairs if (p.kind, p.optimizer) == (kind, optimizer)]
            for p in here:
                _lines(ax, p.own, COLORS[p.activation], "--")
                _lines(ax, p.unit, COLORS[p.activation], "-")
            ax.set_title(f"{what}, {title}", fontsize=10, loc="left")
            ax.set(ylim=(0, 103), yticks=range(0, 101, 20))
            ax.grid(axis="y", color="#e6e9ec", linewidth=0.8)
            ax.spines[["top", "right"]].set_visible(False)
            ax.tick_params(labelsize=9, length=2.5, color=GREY)
            tasks = max((len(r.accuracies) for p in here for r in p.own), default=1)
            ax.set_xticks([1, *range(5, tasks + 1, 5)])
    figure.supxlabel("task", fontsize=10)
    figure.supylabel("accuracy on its training images, percent", fontsize=10)
    handles = [_key(axes[0, 0], color=COLORS[k], label=name) for k, name in NAMES.items()]
    handles += [
        _key(axes[0, 0], color=GREY, linestyle="--", label="activation"),
        _key(axes[0, 0], color=GREY, linestyle="-", label="unit in its place"),
    ]
    figure.legend(
        handles=handles, loc="outside upper center", ncols=len(handles), frameon=False, fontsize=9.5
    )
    save_figure(figure, path)


def _lines(ax: Any, runs: list[Run], color: str, style: str) -> None:
    """The mean over the seeds, and from the lowest to the highest of them."""
    columns = list(zip(*(r.accuracies for r in runs), strict=True))
    x = range(1, len(columns) + 1)
    ax.plot(x, [mean(c) for c in columns], color=color, linestyle=style, linewidth=1.7)
    ax.fill_between(
        x, [min(c) for c in columns], [max(c) for c in columns], color=color, alpha=0.09, lw=0
    )


def _key(ax: Any, **style: Any) -> Any:
    return ax.plot([], [], linewidth=1.7, **style)[0]
