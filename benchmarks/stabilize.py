"""What padenet.stabilize costs in a training step: python benchmarks/stabilize.py [--out FILE]

A step of LeNet (batch 256, fp32) and of an MLP with one unit per channel, with Adam and with SGD,
forward, backward and update, with the stabiliser and without. The two take turns. On the CPU, one
thread and two; the machine must be idle.
"""

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from measure import Record, describe, interleave, save
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
    net = nn.Sequential(
        nn.Linear(64, 512), padenet.PAU(groups=512), nn.Linear(512, 512), padenet.PAU(groups=512),
        nn.Linear(512, 10),
    )  # fmt: skip
    return net, torch.randn(BATCH, 64)


CASES = {"lenet": lenet, "mlp, a unit per channel": per_channel}


def make_step(case: str, optimizer: str, stabilized: bool) -> Callable[[], None]:
    torch.manual_seed(0)
    net, x = CASES[case]()
    y = torch.randint(0, 10, (BATCH,))
    trainer = OPTIMIZERS[optimizer](padenet.param_groups(net, lr=1e-9))  # nets that stay alike
    if stabilized:
        padenet.stabilize(net, trainer)

    def step() -> None:
        trainer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        trainer.step()

    return step


def measure(seconds: float) -> list[Record]:
    rows = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        for case in CASES:
            for optimizer in OPTIMIZERS:
                steps = {
                    name: make_step(case, optimizer, name == "with") for name in ("with", "without")
                }
                times = interleave(steps, seconds, repeats=3)
                ratio = times["with"]["p50"] / times["without"]["p50"]
                cost = times["with"]["p50"] - times["without"]["p50"]
                rows.append(
                    {"net": case, "optimizer": optimizer, "threads": threads, **times}
                    | {"ratio": round(ratio, 4), "ms": round(cost, 3)}
                )
    return rows


def table(rows: list[Record]) -> str:
    lines = [
        "| net | optimizer | threads | step without, ms | with / without | added, ms |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for r in rows:
        lines.append(
            f"| {r['net']} | {r['optimizer']} | {r['threads']} | {r['without']['p50']:.2f} | "
            f"{r['ratio']:.3f} | {r['ms']:.2f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10.0, help="for each row")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    rows = measure(args.seconds)
    print(table(rows))
    if args.out:
        save({"machine": describe(), "rows": rows}, args.out)


if __name__ == "__main__":
    main()
