"""The map of where units train, from its record.

    padenet sweep frontier --out runs/frontier --jobs 2
    padenet pack --last runs/frontier results/frontier/runs.jsonl.gz
    python tools/frontier.py results/frontier/runs.jsonl.gz --close runs/close.py
    padenet sweep runs/close.py --out runs/frontier --jobs 2    # then pack again
    python tools/frontier.py results/frontier/runs.jsonl.gz --out docs/figures/frontier.png

A cell that misses a bar with five seeds is tried with fifteen more, activation and units alike,
and is judged by all twenty.

Beside each activation stand the units that replace it: same net, optimiser, rate and seeds.
A seed is lost if it diverged, or ended more than 5 points below the activation's worst. A cell
counts where the activation learns and keeps its seeds: all of them finite, none more than 5 points
below their mean, and that above 55 %, half way from a guess to all right. Prints what holds and
what does not, and draws the map.
"""

import argparse
import math
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev

from padenet.core.support.extras import require
from padenet.core.support.files import replacing
from padenet.lab.records.packing import read_sources
from padenet.lab.records.run import Run
from padenet.lab.sweep.recipes.frontier import ALPHAS, RATES, REPLACED

LEARNS = 55.0  # percent: half way from a guess to all right
LOST = 5.0  # points below the activation's worst seed
DARK = 1.7  # points, where black is hard to read
WILD = 10.0  # times the activation's output, for inputs beside the data
TITLES = {"sgd": "SGD 0.9", "adamw": "AdamW", "rmsprop": "RMSprop", "muon": "Muon + AdamW"}
NAMES = {
    "relu": "ReLU", "gelu": "GELU", "swish": "SiLU", "tanh": "tanh", "elu": "ELU",
    "softplus": "softplus", "mish": "Mish", "hardswish": "Hardswish",
}  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """The seeds of an activation and of a unit in its place. Accuracy in percent, nan if lost."""

    optimizer: str
    net: str
    rate: float
    activation: str
    own: list[float]
    unit: list[float]
    own_far: float
    unit_far: float

    @property
    def name(self) -> str:
        return f"{self.net}, {NAMES[self.activation]}, {TITLES[self.optimizer]} {self.rate:g}"

    @property
    def counts(self) -> bool:
        """Whether the activation learns and keeps its seeds."""
        if not all(math.isfinite(v) for v in self.own):
            return False
        return mean(self.own) > LEARNS and min(self.own) > mean(self.own) - LOST

    @property
    def lost(self) -> int:
        return sum(not v >= min(self.own) - LOST for v in self.unit)

    @property
    def gain(self) -> float:
        """Mean accuracy of the unit less that of the activation."""
        return mean(self.unit) - mean(self.own)

    @property
    def error(self) -> float:
        """The standard error of the gain."""
        if len(self.own) < 2 or self.lost:
            return math.nan
        return math.hypot(*(stdev(v) / len(v) ** 0.5 for v in (self.own, self.unit)))

    @property
    def wild(self) -> float:
        return self.unit_far / self.own_far

    @property
    def misses(self) -> bool:
        return self.counts and bool(self.lost or self.gain < -1 or not self.wild <= WILD)


def read_cells(runs: list[Run], unit: str = "pau", alpha: float | None = None) -> list[Cell]:
    """One for each activation, net, optimiser and rate that has runs of both."""
    found: dict[tuple[str, ...], dict[int, Run]] = defaultdict(dict)
    for run in runs:
        c = run.config
        found[c.net, c.activation, c.label][c.seed] = run
    cells = []
    noise = "" if alpha is None else f"_{100 * alpha:g}"
    for optimizer, nets in RATES.items():
        for net, rates in nets.items():
            for rate in rates:
                for activation in REPLACED:
                    where = f"{optimizer}_{rate:g}"
                    own = found.get((net, activation, where), {})
                    other = found.get((net, unit, f"{activation}{noise}_{where}"), {})
                    seeds = sorted(own.keys() & other.keys())
                    if not seeds:
                        continue
                    a, b = [own[s] for s in seeds], [other[s] for s in seeds]
                    cells.append(
                        Cell(
                            optimizer, net, rate, activation,
                            [accuracy(r) for r in a], [accuracy(r) for r in b],
                            max(far(r) for r in a), max(far(r) for r in b),
                        )
                    )  # fmt: skip
    return cells


def accuracy(run: Run) -> float:
    result = run.result or {}
    done = result.get("status") == "done" and result.get("test_accuracy") is not None
    return float(result["test_accuracy"]) if done else math.nan


def far(run: Run) -> float:
    value = (run.result or {}).get("far_output")
    return math.inf if value is None else float(value)


def describe(cells: list[Cell], title: str) -> str:
    held = [c for c in cells if c.counts]
    lost = [c for c in held if c.lost]
    kept = [c for c in held if not c.lost]
    below = sorted((c for c in kept if c.gain < -1), key=lambda c: c.gain)
    wild = [c for c in held if not c.wild <= WILD]
    runs = sum(len(c.unit) for c in held)
    lines = [
        f"{title}: {len(cells)} cells, in {len(held)} the activation keeps its seeds. There:",
        f"  seeds lost: {sum(c.lost for c in held)} of {runs}, in {len(lost)} cells",
        f"  mean gain: {mean(c.gain for c in kept):+.2f} points",
        f"  more than 1 point below the activation: {len(below)} cells",
        f"  outputs beside the data more than {WILD:g} times the activation's: {len(wild)} cells",
    ]
    lines += [f"    lost {c.lost} of {len(c.unit)}: {c.name}" for c in lost]
    lines += [f"    {c.gain:+.2f} ± {c.error:.2f}: {c.name}" for c in below]
    lines += [f"    {c.wild:.0f} times: {c.name}" for c in wild]
    return "\n".join(lines)


CLOSE = """\"\"\"Cells of the map in which five seeds do not decide, with fifteen more.\"\"\"

from padenet.lab.sweep.recipes.frontier import MORE, cell

CELLS = [
{cells}]


def runs():
    return [run for seed in MORE for where in CELLS for run in cell(*where, seed)]
"""


def write_recipe(cells: list[Cell], path: Path) -> None:
    """Those cells, as a file for ``padenet sweep``."""
    where = sorted({(c.net, c.optimizer, c.rate, c.activation) for c in cells})
    with replacing(path) as temporary:
        temporary.write_text(CLOSE.format(cells="".join(f"    {w!r},\n" for w in where)))
    print(f"wrote {len(where)} cells to {path}")


def table(cells: list[Cell]) -> str:
    """Markdown: what holds for each optimiser and net."""
    lines = [
        "| optimizer | net | cells | lost by the activation | by the unit | mean gain | worst |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for optimizer, nets in RATES.items():
        for net in nets:
            some = [c for c in cells if (c.optimizer, c.net) == (optimizer, net)]
            held = [c for c in some if c.counts]
            kept = [c for c in held if not c.lost]
            if not some:
                continue
            dead = sum(not v >= mean_of(c.own) - LOST for c in some for v in c.own)
            gone = sum(c.lost for c in held)
            lines.append(
                f"| {TITLES[optimizer]} | {net} | {len(held)} of {len(some)} | {dead} of "
                f"{sum(len(c.own) for c in some)} | {gone} of {sum(len(c.unit) for c in held)} | "
                f"{mean(c.gain for c in kept):+.2f} | {min(c.gain for c in kept):+.2f} |"
            )
    return "\n".join(lines)


def mean_of(values: list[float]) -> float:
    """Of those that are there; infinite if none is."""
    there = [v for v in values if math.isfinite(v)]
    return mean(there) if there else math.inf


def draw(cells: list[Cell], path: Path) -> None:
    """A panel for each optimiser: nets and rates across, activations down."""
    figures = require("matplotlib.figure", "plots")
    colors = require("matplotlib.colors", "plots")
    figure = figures.Figure(figsize=(13, 10.5), layout="constrained")
    axes = figure.subplots(len(RATES), 1)
    scale = colors.TwoSlopeNorm(0.0, -3.0, 3.0)
    image = None
    for ax, (optimizer, nets) in zip(axes, RATES.items(), strict=True):
        columns = [(net, rate) for net, rates in nets.items() for rate in rates]
        values = [[math.nan] * len(columns) for _ in REPLACED]
        for i, activation in enumerate(REPLACED):
            for j, (net, rate) in enumerate(columns):
                key = (optimizer, net, rate, activation)
                c = next(
                    (c for c in cells if (c.optimizer, c.net, c.rate, c.activation) == key), None
                )
                if c is None:
                    continue
                kept = sum(math.isfinite(v) and v >= mean_of(c.own) - LOST for v in c.own)
                if c.counts and not c.lost:
                    values[i][j] = c.gain
                    text = f"{c.gain:+.1f}"
                    color = "white" if abs(c.gain) > DARK else "black"
                elif c.counts:
                    text, color = f"−{c.lost}", "#b00020"
                else:
                    left = sum(math.isfinite(v) and v >= mean_of(c.own) - LOST for v in c.unit)
                    text, color = f"{kept} → {left}", "#555555"
                ax.text(j, i, text, ha="center", va="center", fontsize=8, color=color)
        image = ax.imshow(values, cmap="PuOr", norm=scale, aspect="auto")
        ax.set_facecolor("#e4e4e4")
        ax.set_yticks(range(len(REPLACED)), [NAMES[a] for a in REPLACED], fontsize=9)
        ax.set_xticks(range(len(columns)), [f"{rate:g}" for _, rate in columns], fontsize=8)
        for k, net in enumerate(nets):
            first = k * 3
            ax.axvline(first - 0.5, color="white", lw=3)
            ax.text(first + 1, -0.65, net, ha="center", va="bottom", fontsize=9)
        ax.set_title(TITLES[optimizer], loc="left", fontsize=11, fontweight="bold", pad=16)
        ax.tick_params(length=0)
        for spine in ax.spines.values():
            spine.set_visible(False)
    figure.colorbar(image, ax=axes, shrink=0.35, label="unit − activation, points of accuracy")
    figure.supxlabel(
        "learning rate. Grey: the activation does not learn or loses seeds itself; seeds kept, "
        "activation → unit. Red: seeds that the unit loses",
        fontsize=9,
    )
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png", dpi=110)


def provenance(runs: list[Run]) -> str:
    machines = [r.result["machine"] for r in runs if r.result]
    parts = [
        " and ".join(sorted({str(m.get(key)) for m in machines})) for key in ("device", "torch")
    ]
    commits = " and ".join(sorted({str(m.get("commit"))[:10] for m in machines}))
    return f"{parts[0]}, torch {parts[1]}, commit {commits}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sources", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, help="the figure")
    parser.add_argument("--close", type=Path, help="a recipe of more seeds where a bar is missed")
    args = parser.parse_args()
    runs = [r for r in read_sources(args.sources) if r.result is not None]
    cells = read_cells(runs)
    print(describe(cells, "PAU"))
    close = [c for c in cells if c.misses]
    for alpha in ALPHAS:
        noisy = read_cells(runs, "rpau", alpha)
        close += [c for c in noisy if c.misses]
        if noisy:
            print(describe(noisy, f"RPAU, alpha {100 * alpha:g} %"))
    print(f"\n{table(cells)}\n\n{len(runs)} runs. {provenance(runs)}")
    if args.out:
        draw(cells, args.out)
    if args.close:
        write_recipe(close, args.close)


if __name__ == "__main__":
    main()
