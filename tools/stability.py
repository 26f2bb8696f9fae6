"""Why Padé units diverge, and what keeps them from it: python tools/stability.py --data-dir DIR

Trains a VGG of an eighth of the width on the first 6,000 images of Fashion-MNIST, fast enough for a
CPU, with a rate of the coefficients that is too high on purpose. Prints a table of variants and
seeds, and draws what happens to seed 0 without and with the guard. Ten minutes on two cores.
"""

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import torch
from torch import nn

from padenet import PAU
from padenet.experiments.config import Config
from padenet.experiments.data import Dataset, load
from padenet.experiments.learner import Learner
from padenet.experiments.machine import describe_machine
from padenet.experiments.nets import NETS
from padenet.experiments.nets.vgg import BLOCKS, vgg
from padenet.extras import require
from padenet.files import replacing

NARROW = 8
BASE = Config(
    dataset="fashion-mnist",
    net="vgg-narrow",
    activation="pau",
    optimizer="sgd",
    batch_size=64,
    epochs=20,
    lr=0.05,
    momentum=0.5,
    coefficient_lr=0.3,
)
VARIANTS = {
    "as it is": {},
    "guard (`coefficient_floor=0.1`)": {"coefficient_floor": 0.1},
    "a tenth of the rate": {"coefficient_lr": 0.03},
    "gradient of a unit clipped at 0.1": {"coefficient_clip": 0.1},
    "`form=abs_terms`": {"form": "abs_terms"},
}


@dataclass
class Trace:
    """Of every step: b_4, coefficient gradient and greatest output of each unit."""

    last: list[list[float]] = field(default_factory=list)
    gradients: list[list[float]] = field(default_factory=list)
    outputs: list[list[float]] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)


def peaks() -> None:
    """How large the default unit is where A = 0, for b_4 below 0."""
    print("| b_4 | zeros of A at | \\|F\\| there |")
    print("|---:|---:|---:|")
    for last in (-0.1, -0.03, -0.01, -0.004):
        unit = PAU(dtype=torch.float64)
        with torch.no_grad():
            unit.b[3] = last
            zero = (unit.b[1] / -last).sqrt()
            print(f"| {last} | ±{zero.item():.1f} | {unit(zero).abs().item():,.0f} |")
    print()


def narrow_vgg(act, channels: int, classes: int) -> nn.Sequential:
    blocks = tuple((width // NARROW, count) for width, count in BLOCKS)
    return vgg(act, channels, classes, blocks)


def first_images(data: Dataset, train: int = 6000, test: int = 2000) -> Dataset:
    return replace(
        data,
        train_images=data.train_images[:train],
        train_labels=data.train_labels[:train],
        test_images=data.test_images[:test],
        test_labels=data.test_labels[:test],
    )


def trace(config: Config, data: Dataset) -> Trace:
    """Train until the end or until the loss is not finite."""
    learner, found = Learner(config, data, torch.device("cpu")), Trace()
    greatest: dict[str, float] = {}
    for name, unit in learner.units.items():
        unit.register_forward_hook(
            lambda _, __, y, name=name: greatest.__setitem__(name, y.detach().abs().max().item())
        )
    gradients: list[float] = []
    learner.optimizer.register_step_pre_hook(lambda *_: gradients.extend(norms(learner)))
    for epoch in range(1, config.epochs + 1):
        for _ in learner.train(epoch):
            found.last.append([u.b[-1].item() for u in learner.units.values()])
            found.outputs.append(list(greatest.values()))
            found.gradients.append(list(gradients))
            gradients.clear()
        found.losses.append(learner.means("train")["train_loss"])
        for _ in learner.test():
            pass
        found.accuracies.append(learner.means("test")["test_accuracy"])
        if not math.isfinite(found.losses[-1]):
            break
    return found


def norms(learner: Learner) -> Iterator[float]:
    for unit in learner.units.values():
        yield torch.cat([unit.a.grad, unit.b.grad]).norm().item()


def describe(found: Trace) -> str:
    if not math.isfinite(found.losses[-1]):
        return f"diverged in epoch {len(found.losses)}"
    crossed = any(b < 0 for row in found.last for b in row)
    return f"{found.accuracies[-1]:.1f}{' *' if crossed else ''}"


def draw(free: Trace, held: Trace, path: str) -> None:
    figures = require("matplotlib.figure", "plots")
    figure = figures.Figure(figsize=(11, 3.4), layout="constrained")
    axes = figure.subplots(1, 3)
    colors = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00"]
    crossed = next((i for i, row in enumerate(free.last) if min(row) < 0), 0)
    span = (crossed - 60, len(free.last) + 30)
    for i, color in enumerate(colors):
        line = dict(color=color, lw=1.2, label=f"block {i + 1}")
        axes[0].plot([row[i] for row in free.last], **line)
        axes[1].plot([row[i] for row in free.outputs], **line)
        axes[2].plot([row[i] for row in held.last], **line)
    axes[0].set(title="without guard: $b_4$", xlabel="step", xlim=span, ylim=(-1, 2))
    axes[0].axhline(0, color="black", lw=0.8)
    axes[1].set(title="without guard: greatest |F(x)|", xlabel="step", yscale="log", xlim=span)
    axes[2].set(title="with guard: $b_4$", xlabel="step", xlim=span, ylim=(-1, 2))
    axes[2].axhline(0, color="black", lw=0.8)
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=5)
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png", dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--figure", default="stability.png")
    args = parser.parse_args()
    torch.set_num_threads(1)
    NETS["vgg-narrow"] = replace(NETS["vgg"], make=narrow_vgg)
    data = first_images(load("fashion-mnist", args.data_dir))
    peaks()
    kept = {}
    print(f"| variant | {' | '.join(f'seed {s}' for s in range(args.seeds))} |")
    print("|---|" + "---:|" * args.seeds)
    for name in args.variants:
        cells = []
        for seed in range(args.seeds):
            found = trace(replace(BASE, seed=seed, **VARIANTS[name]), data)
            cells.append(describe(found))
            if seed == 0:
                kept[name] = found
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    first, second = list(VARIANTS)[:2]
    if first in kept and second in kept:
        draw(kept[first], kept[second], args.figure)
    machine = describe_machine(torch.device("cpu"))
    print("\n* some b_4 was negative on the way.")
    print(f"{machine['device']}, torch {machine['torch']}, commit {machine['commit']}")


if __name__ == "__main__":
    main()
