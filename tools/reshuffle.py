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
import math
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from reshuffle_records import Run, Settings, read, write
from reshuffle_report import KINDS, NAMES, RATES, draw, pair_up, provenance, summary, table
from torch import Tensor, nn
from torch.optim import Optimizer

from padenet import make_activation, param_groups, stabilize
from padenet.lab.data import Dataset, load
from padenet.lab.nets.blocks import named
from padenet.lab.run.machine import describe_machine
from padenet.lab.sweep.recipes.frontier import DECAY, REPLACED

EPOCHS = {"shuffled": 20, "renamed": 5}


def make_net(activation: str, unit: bool, inputs: int, classes: int, width: int) -> nn.Sequential:
    def act() -> nn.Module:
        if unit:
            return make_activation("pau", init=REPLACED[activation])
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
