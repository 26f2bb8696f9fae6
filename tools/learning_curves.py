"""The README's picture: test accuracy of VGG on Fashion-MNIST, epoch by epoch, from recorded runs.

    python tools/learning_curves.py                     # when 90, 91 and 92 % are passed
    python tools/learning_curves.py --out docs/figures  # also vgg-light.svg and vgg-dark.svg

Each line is the mean of all seeds: the thirteen activations of ``results/table2`` and, from
``results/vgg``, PAU under ``padenet.stabilize``. Needs matplotlib.
"""

import argparse
from collections import defaultdict
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from padenet.lab.records.packing import read_sources

RESULTS = Path(__file__).parents[1] / "results"
LEVELS = (90, 91, 92)
STABILIZED = "pau, stabilized"
# Blue and orange stay apart for colour-blind readers, and dashes tell the two PAUs apart.
THEMES = {
    "light": {"ink": "#1f2328", "grid": "#d8dee4", "others": "#7d8791", "pau": "#0072b2"},
    "dark": {"ink": "#e6edf3", "grid": "#30363d", "others": "#8b98a5", "pau": "#58b4f0"},
}
RELU = {"light": "#c04a00", "dark": "#ff9a52"}
LOW, HIGH = 84.0, 93.4
SIZE = (7.2, 4.4)  # inches at 100 pixels: readable at 360 pixels and at 800


def curves() -> dict[str, np.ndarray]:
    """Mean test accuracy by epoch; activations without a finished seed are left out."""
    seeds: dict[str, list[list[float]]] = defaultdict(list)
    for record in ("table2", "vgg"):
        for run in read_sources([RESULTS / record / "runs.jsonl.gz"]):
            config, epochs = run.config, run.config.epochs + 1
            if (config.dataset, config.net) != ("fashion-mnist", "vgg"):
                continue
            if record == "vgg" and config.activation != "pau":
                continue
            name = STABILIZED if record == "vgg" else config.activation
            if len(run.metrics) == epochs:
                seeds[name].append([m["test_accuracy"] for m in run.metrics])
    return {name: np.mean(values, axis=0) for name, values in seeds.items()}


def first_above(curve: np.ndarray, level: float) -> int | None:
    above = np.flatnonzero(curve > level)
    return int(above[0]) if len(above) else None


def table(means: dict[str, np.ndarray]) -> str:
    head = ["activation", *(f"passes {level} % in epoch" for level in LEVELS), "after the last"]
    lines = [head, ["---"] + ["---:"] * (len(head) - 1)]
    for name, curve in sorted(means.items(), key=lambda item: -item[1][-1]):
        passed = [first_above(curve, level) for level in LEVELS]
        lines.append(
            [name, *("never" if e is None else str(e) for e in passed), f"{curve[-1]:.2f}"]
        )
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def draw(means: dict[str, np.ndarray], theme: str) -> Figure:
    look, relu = THEMES[theme], RELU[theme]
    figure = Figure(SIZE, dpi=100, layout="constrained")
    figure.patch.set_alpha(0)
    ax = figure.subplots()
    ax.patch.set_alpha(0)
    epochs = np.arange(len(means["pau"]))
    for name in means.keys() - {"pau", "rpau", "relu", STABILIZED}:
        ax.plot(epochs, means[name], color=look["others"], linewidth=1.0)
    ax.plot(epochs, means["relu"], color=relu, linewidth=2.2)
    ax.plot(epochs, means["pau"], color=look["pau"], linewidth=3.0)
    ax.plot(epochs, means[STABILIZED], color=look["pau"], linewidth=2.2, linestyle=(0, (3.5, 1.5)))

    passed = {name: first_above(means[name], 91) for name in ("pau", "relu")}
    for name, (x, y), side, colour in (
        ("pau", (20, 91.3), "right", look["pau"]),
        ("relu", (61, 86.6), "left", relu),
    ):
        epoch = passed[name]
        assert epoch is not None
        ax.plot(epoch, means[name][epoch], "o", color=colour, markersize=9, zorder=5)
        text = f"91 % in\nepoch {epoch}"
        ax.text(x, y, text, color=colour, ha=side, fontsize=15, linespacing=1.1)
        if name == "relu":  # a line down to where there is room
            ax.plot(
                [epoch] * 2, [y, means[name][epoch]], color=colour, linestyle=":", linewidth=1.4
            )
    bold = {"fontsize": 16, "fontweight": "bold"}
    ax.text(100, 92.87, "PAU, stabilized (dashed)", color=look["pau"], ha="right", **bold)
    ax.text(27, 90.35, "PAU", color=look["pau"], **bold)
    ax.text(29.5, 87.85, "ReLU", color=relu, **bold)
    ax.text(100, 84.5, "grey: nine others", color=look["others"], ha="right", fontsize=15)
    ax.set(xlim=(0, 101), ylim=(LOW, HIGH), xticks=range(0, 101, 20), yticks=range(84, 94, 2))
    ax.set_xlabel("epoch", fontsize=15, color=look["ink"])
    ax.set_ylabel("test accuracy, %", fontsize=15, color=look["ink"])
    ax.tick_params(labelsize=15, colors=look["ink"], length=0)
    ax.grid(color=look["grid"], linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[:].set_visible(False)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="a directory for the two pictures")
    args = parser.parse_args()
    means = curves()
    print(table(means))
    for theme in THEMES if args.out else ():
        with mpl.rc_context({"svg.hashsalt": "padenet"}):
            path = args.out / f"vgg-{theme}.svg"
            draw(means, theme).savefig(path, metadata={"Date": None})
        print(f"wrote {path}, {path.stat().st_size // 1024} kB")


if __name__ == "__main__":
    main()
