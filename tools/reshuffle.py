"""Do nets with Padé units still learn when their task changes, 20 times over?

    python tools/reshuffle.py --data-dir DIR
    python tools/reshuffle.py --read results/reshuffle/runs.json --plot docs/figures/reshuffle.png

A small net learns 1,000 images of MNIST. Then their labels change, and it goes on from the weights
and the optimiser state that it has; and so on. There are two kinds of change:

shuffled  The labels are dealt out to the images anew, at random: each image must be memorised.
renamed   The ten classes swap their names at random: what a 3 looks like may be kept.

The first task is drawn the same way as the others. Beside each activation stands the unit that
replaces it, under padenet.stabilize: same net, first weights, images, labels and batches, same
optimiser and rate. The score of a task is the accuracy on its training images at its end. A seed
of a unit has collapsed if its mean over the last five tasks is more than 5 points below that of
the activation's worst seed, or not finite. 14 minutes on one core.
"""

import argparse
import json
import math
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer

from padenet import make_activation, param_groups, stabilize
from padenet.core.files import replacing
from padenet.lab.data import Dataset, load
from padenet.lab.nets.blocks import named
from padenet.lab.run.machine import describe_machine
from padenet.lab.sweep.recipes.frontier import ACTIVATIONS, DECAY
from padenet.torch import GREY, new_figure, save_figure

NAMES = {"relu": "ReLU", "gelu": "GELU", "tanh": "tanh", "swish": "SiLU"}
COLORS = {"relu": "#0072B2", "gelu": "#D55E00", "tanh": "#009E73", "swish": "#CC79A7"}
RATES = {"sgd": 0.01, "adamw": 0.001}
TITLES = {"sgd": "SGD 0.9", "adamw": "AdamW"}
KINDS = {"shuffled": "labels shuffled", "renamed": "classes renamed"}
EPOCHS = {"shuffled": 20, "renamed": 5}
LAST = 5  # tasks at the end whose mean counts
POINTS = 5.0  # of accuracy below the activation's worst seed, or below a seed's own best task
WIDTH = 128


@dataclass(frozen=True)
class Settings:
    """What all runs of a record share."""

    dataset: str = "mnist"
    seeds: int = 5
    tasks: int = 20
    images: int = 1000
    batch_size: int = 50
    width: int = WIDTH
    epochs: int | None = None  # those of EPOCHS unless given
    factor: float = 1.0  # all rates times this


@dataclass(frozen=True)
class Run:
    """A net through all its tasks: accuracy in percent after each, nan from where it diverged."""

    kind: str
    optimizer: str
    lr: float
    epochs: int
    activation: str
    unit: bool
    seed: int
    accuracies: list[float]
    seconds: float
    units: dict[str, Any]  # the coefficients at the end
    held: list[str]  # what the stabiliser did

    @property
    def first(self) -> float:
        return self.accuracies[0]

    @property
    def last(self) -> float:
        return mean(self.accuracies[-LAST:])


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


def make_net(activation: str, unit: bool, inputs: int, classes: int, width: int) -> nn.Sequential:
    def act() -> nn.Module:
        if unit:
            return make_activation("pau", init=ACTIVATIONS[activation])
        return make_activation(activation)

    return named(
        flatten=nn.Flatten(),
        fc1=nn.Linear(inputs, width),
        act1=act(),
        fc2=nn.Linear(width, width),
        act2=act(),
        fc3=nn.Linear(width, classes),
    )


def make_optimizer(name: str, net: nn.Module, lr: float) -> Optimizer:
    groups = param_groups(net, lr=lr, weight_decay=DECAY[name])
    groups = [g for g in groups if g["params"]]
    if name == "sgd":
        return torch.optim.SGD(groups, momentum=0.9, fused=True)
    return torch.optim.AdamW(groups, fused=True)


def change(kind: str, labels: Tensor, classes: int, draw: torch.Generator) -> Tensor:
    """The labels of the next task."""
    if kind == "renamed":
        return torch.randperm(classes, generator=draw)[labels]
    return labels[torch.randperm(len(labels), generator=draw)]


def train(
    settings: Settings,
    data: Dataset,
    kind: str,
    optimizer_name: str,
    activation: str,
    unit: bool,
    seed: int,
) -> Run:
    """All tasks, one after the other."""
    began = time.process_time()
    epochs = settings.epochs or EPOCHS[kind]
    lr = settings.factor * RATES[optimizer_name]
    classes = len(data.classes)
    draw = torch.Generator().manual_seed(seed)
    chosen = torch.randperm(len(data.train_images), generator=draw)[: settings.images]
    images, own_labels = data.train_images[chosen].float() / 255, data.train_labels[chosen]
    torch.manual_seed(seed)
    net = make_net(activation, unit, images[0].numel(), classes, settings.width)
    optimizer = make_optimizer(optimizer_name, net, lr)
    stabilizer = stabilize(net, optimizer) if unit else None
    accuracies: list[float] = []
    for _ in range(settings.tasks):
        labels = change(kind, own_labels, classes, draw)
        for _ in range(epochs):
            order = torch.randperm(len(images), generator=draw)
            for batch in order.split(settings.batch_size):
                loss = F.cross_entropy(net(images[batch]), labels[batch])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        accuracies.append(accuracy(net, images, labels))
        if not math.isfinite(accuracies[-1]):
            accuracies += [math.nan] * (settings.tasks - len(accuracies))
            break
    return Run(
        kind,
        optimizer_name,
        lr,
        epochs,
        activation,
        unit,
        seed,
        accuracies,
        round(time.process_time() - began, 2),
        coefficients(net) if unit else {},
        str(stabilizer).splitlines() if stabilizer else [],
    )


@torch.no_grad()
def accuracy(net: nn.Module, images: Tensor, labels: Tensor) -> float:
    """In percent, nan if the outputs are not finite."""
    outputs = net(images)
    if not outputs.isfinite().all():
        return math.nan
    return round(100 * (outputs.argmax(1) == labels).double().mean().item(), 3)


def coefficients(net: nn.Module) -> dict[str, Any]:
    parts = {k: v for k, v in net.named_parameters() if k.startswith("act")}
    return {name: [float(f"{v:.9g}") for v in p.flatten().tolist()] for name, p in parts.items()}


def train_all(settings: Settings, data: Dataset) -> Iterator[Run]:
    """Whole seeds first."""
    for seed in range(settings.seeds):
        for kind in KINDS:
            for optimizer in RATES:
                for activation in NAMES:
                    for unit in (False, True):
                        yield train(settings, data, kind, optimizer, activation, unit, seed)
        print(f"seed {seed} done, {time.process_time():.0f} s so far", file=sys.stderr, flush=True)


def write(path: Path, settings: Settings, machine: dict[str, Any], runs: list[Run]) -> None:
    """The record, whole or not at all: a line for each run. JSON has no nan: null stands for it."""
    record = {"settings": asdict(settings), "machine": machine}
    head = json.dumps(record)[:-1]
    lines = [json.dumps(_without_nan(asdict(run)), allow_nan=False) for run in runs]
    with replacing(path) as temporary:
        temporary.write_text(
            f'{head}, "runs": [\n' + ",\n".join(lines) + "\n]}\n", encoding="utf-8"
        )


def read(path: Path) -> tuple[dict[str, Any], list[Run]]:
    """The record without its runs, and these."""
    record = json.loads(path.read_text(encoding="utf-8"))
    runs = []
    for r in record.pop("runs"):
        accuracies = [math.nan if v is None else v for v in r["accuracies"]]
        runs.append(Run(**{**r, "accuracies": accuracies}))
    return record, runs


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_nan(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_without_nan(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


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


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    base = Settings()
    parser.add_argument("--data-dir", help="where MNIST is; see docs/data.md")
    parser.add_argument("--dataset", default=base.dataset, choices=["mnist", "digits"])
    parser.add_argument("--seeds", type=int, default=base.seeds)
    parser.add_argument("--tasks", type=int, default=base.tasks)
    parser.add_argument("--epochs", type=int, help="of each task; 20, for renamed classes 5")
    parser.add_argument("--images", type=int, default=base.images)
    parser.add_argument("--factor", type=float, default=base.factor, help="of all learning rates")
    parser.add_argument("--out", type=Path, default=Path("results/reshuffle/runs.json"))
    parser.add_argument("--read", type=Path, help="a record: train nothing, print and draw it")
    parser.add_argument("--plot", type=Path, help="the figure")
    args = parser.parse_args(arguments)
    path = args.read or args.out
    if not args.read:
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.set_num_threads(1)
        settings = Settings(
            args.dataset,
            args.seeds,
            args.tasks,
            args.images,
            epochs=args.epochs,
            factor=args.factor,
        )
        machine = describe_machine(torch.device("cpu"))  # before: the checkout may change meanwhile
        data = load(args.dataset, args.data_dir)
        write(path, settings, machine, list(train_all(settings, data)))
    record, runs = read(path)
    pairs = pair_up(runs)
    print(f"{table(pairs)}\n\n{summary(pairs)}\n\n{provenance(record, runs)}")
    if args.plot:
        draw(pairs, args.plot)


if __name__ == "__main__":
    main()
