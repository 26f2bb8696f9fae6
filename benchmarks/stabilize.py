"""What padenet.stabilize costs in a training step: python benchmarks/stabilize.py [--out FILE]

LeNet (batch 256, fp32) and an MLP with one unit per channel, with Adam and with SGD. Two nets that
stay alike take turns with whole steps, one with the stabiliser. What is compared is the time of
``optimizer.step()`` in them, after forward and backward as in training: those vary from one net to
the next by more than the stabiliser costs. On the CPU, one thread and two, on an idle machine.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import torch
import torch.nn.functional as F
from measure import Record, describe, save
from torch import nn

import padenet
from padenet.experiments.nets import build

BATCH = 256
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adam": partial(torch.optim.Adam, fused=True),
    "sgd": partial(torch.optim.SGD, momentum=0.9),
}


def lenet() -> tuple[nn.Module, torch.Tensor]:
    return build("lenet", "pau"), torch.randn(BATCH, 1, 32, 32)


def per_channel() -> tuple[nn.Module, torch.Tensor]:
    first, second = (padenet.PAU(groups=512) for _ in range(2))
    layers = nn.Linear(64, 512), first, nn.Linear(512, 512), second, nn.Linear(512, 10)
    return nn.Sequential(*layers), torch.randn(BATCH, 64)


CASES = {"lenet": lenet, "mlp, a unit per channel": per_channel}


class Loop:
    """A net in training. ``times`` of each step are of the whole and of the optimiser's part."""

    def __init__(self, case: str, optimizer: str, stabilized: bool):
        torch.manual_seed(0)
        self.net, self.x = CASES[case]()
        self.y = torch.randint(0, 10, (BATCH,))
        self.optimizer = OPTIMIZERS[optimizer](padenet.param_groups(self.net, lr=1e-9))
        self.times: list[tuple[float, float]] = []
        if stabilized:
            padenet.stabilize(self.net, self.optimizer)

    def step(self) -> None:
        start = time.perf_counter()
        self.optimizer.zero_grad()
        F.cross_entropy(self.net(self.x), self.y).backward()
        middle = time.perf_counter()
        self.optimizer.step()
        end = time.perf_counter()
        self.times.append((1e3 * (end - start), 1e3 * (end - middle)))

    def medians(self) -> tuple[float, float]:
        whole, part = zip(*self.times[10:], strict=True)
        return median(whole), median(part)


def measure(case: str, optimizer: str, threads: int, seconds: float) -> Record:
    torch.set_num_threads(threads)
    loops = [Loop(case, optimizer, stabilized) for stabilized in (False, True)]
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline or len(loops[0].times) < 20:
        for loop in loops:
            loop.step()
    (whole, before), (_, after) = (loop.medians() for loop in loops)
    return {
        "net": case,
        "optimizer": optimizer,
        "threads": threads,
        "step_ms": round(whole, 3),
        "added_ms": round(after - before, 3),
        "percent": round(100 * (after - before) / whole, 2),
        "samples": len(loops[0].times),
    }


def table(rows: list[Record]) -> str:
    lines = [
        "| net | optimizer | threads | training step, ms | added, ms | added, % |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for row in rows:
        lines.append(f"| {' | '.join(str(v) for v in list(row.values())[:-1])} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10.0, help="for each row")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    rows = [
        measure(case, optimizer, threads, args.seconds)
        for threads in (1, 2)
        for case in CASES
        for optimizer in OPTIMIZERS
    ]
    print(table(rows))
    if args.out:
        save({"machine": describe(), "rows": rows}, args.out)


if __name__ == "__main__":
    main()
