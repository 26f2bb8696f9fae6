"""What padenet.stabilize costs in a training step: python benchmarks/stabilize.py [--out FILE]

LeNet (batch 256, fp32) and an MLP with one unit per channel, with Adam and with SGD. Two nets that
stay alike take turns with whole steps, one with the stabiliser. What is compared is the time of
``optimizer.step()`` in them, after forward and backward as in training: those vary from one net to
the next by more than the stabiliser costs. On the CPU, one thread and two, on an idle machine.

With --device cuda whole steps, eager and as a CUDA graph, and how many kernels they are.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median

import torch
import torch.nn.functional as F
from measure import Record, describe, describe_gpu, interleave, save
from torch import nn

import padenet
from padenet.lab.nets import build

BATCH = 256
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adam": partial(torch.optim.Adam, fused=True, capturable=torch.cuda.is_available()),
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

    def __init__(self, case: str, optimizer: str, stabilized: bool, device: str = "cpu"):
        torch.manual_seed(0)
        self.net, self.x = (made.to(device) for made in CASES[case]())
        self.y = torch.randint(0, 10, (BATCH,), device=device)
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

    def capture(self) -> None:
        """Have its step as a CUDA graph, for ``replay``."""
        stream, self.graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.step()
        torch.cuda.current_stream().wait_stream(stream)
        with torch.cuda.graph(self.graph):
            self.step()

    def replay(self) -> None:
        self.graph.replay()

    def medians(self) -> tuple[float, float]:
        whole, part = zip(*self.times[10:], strict=True)
        return median(whole), median(part)


def count_kernels(call: Callable[[], None]) -> int:
    """How often the device is asked for something in a call, copies and fills too."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as found:
        call()
        torch.cuda.synchronize()
    return sum(e.count for e in found.key_averages() if e.device_type.name == "CUDA")


def measure_on_gpu(case: str, optimizer: str, seconds: float) -> Record:
    calls, counts = {}, {}
    for name, stabilized in ("alone", False), ("stabilized", True):
        eager, other = (Loop(case, optimizer, stabilized, "cuda") for _ in range(2))
        for _ in range(3):
            eager.step()
        counts[name] = count_kernels(eager.step)
        other.capture()
        calls[f"eager, {name}"], calls[f"graph, {name}"] = eager.step, other.replay
    times = interleave(calls, seconds, repeats=20, synchronize=torch.cuda.synchronize)
    row: Record = {"net": case, "optimizer": optimizer}
    for how in "eager", "graph":
        before, after = (times[f"{how}, {name}"]["p50"] for name in counts)
        row |= {f"{how}_ms": round(before, 4), f"{how}_added_ms": round(after - before, 4)}
        row[f"{how}_percent"] = round(100 * (after / before - 1), 2)
    return row | {"kernels": counts["alone"], "added": counts["stabilized"] - counts["alone"]}


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


HEADERS = "| net | optimizer | threads | training step, ms | added, ms | added, % |"
HEADERS_GPU = (
    "| net | optimizer | training step, ms | added, ms | added, % | as a CUDA graph, ms "
    "| added, ms | added, % | kernels | added |"
)


def table(header: str, rows: list[Record]) -> str:
    columns = header.count("|") - 1
    lines = [header, "|---|---|" + "---:|" * (columns - 2)]
    for row in rows:
        lines.append(f"| {' | '.join(str(v) for v in list(row.values())[:columns])} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10.0, help="for each row")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--commit", help="what is measured, where git cannot tell")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    on_gpu = args.device == "cuda"
    made = describe() | (describe_gpu() if on_gpu else {})
    if args.commit:
        made |= {"commit": args.commit, "dirty": None}
    pairs = list(product(CASES, OPTIMIZERS))
    if on_gpu:
        rows = [measure_on_gpu(*pair, args.seconds) for pair in pairs]
    else:
        rows = [measure(*pair, n, args.seconds) for n in (1, 2) for pair in pairs]
    print(table(HEADERS_GPU if on_gpu else HEADERS, rows))
    if args.out:
        save({"machine": made, "rows": rows}, args.out)


if __name__ == "__main__":
    main()
