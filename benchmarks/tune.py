"""What the GPU kernels take with other choices than their plan's: python benchmarks/tune.py

Tries how many registers a thread may have and, in forward, how many tiles it loads together.
``kernels/gpu/plan.py`` has what was fastest on an H200; another GPU may prefer others. Prints times
in ms and against the floor of ``gpu.py``, the plan's own choice first, then from the fastest on.
Nothing is recorded, and nothing is checked: ``gpu.py`` does that.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from typing import NamedTuple
from unittest import mock

import torch
from bars import BACKWARD, FORWARD, GPU_FLOOR
from gpu_cases import DTYPES, SHAPES, Calls, make_calls, make_problem
from measure import describe_gpu, interleave_events

from padenet.kernels import gpu
from padenet.kernels.gpu import plan
from padenet.kernels.gpu.plan import Plan

UNITS = {
    "PAU": "large",
    "PAU, 8 groups": "groups",
    "PAU, 64 groups": "channels",
    "PAU, 64 groups, channels_last": "channels",
}
WORKS = (FORWARD, BACKWARD)


class Choice(NamedTuple):
    registers: int
    tiles: int = 0  # in forward; 0: the plan's

    def __str__(self) -> str:
        return f"{self.registers} registers" + (f", {self.tiles} tiles" if self.tiles else "")

    def plan_for(self, *arguments: object) -> Plan:
        """What ``plan.plan_for`` makes of this choice."""
        own = plan._forward_tiles

        def tiles(layout: int, parts: int) -> tuple[int, int]:
            steps, batch = own(layout, parts)
            return max(steps, self.tiles), self.tiles or batch

        with (
            mock.patch.object(plan, "_registers", return_value=self.registers),
            mock.patch.object(plan, "_forward_tiles", tiles),
        ):
            return plan.plan_for.__wrapped__(*arguments)

    def on(self, run: Callable[[], object]) -> Callable[[], object]:
        """``run``, a forward or backward of the kernels, with this choice."""
        made: dict[tuple[object, ...], Plan] = {}

        def planned(*arguments: object) -> Plan:
            if arguments not in made:
                made[arguments] = self.plan_for(*arguments)
            return made[arguments]

        def call() -> object:
            with mock.patch.object(gpu, "plan_for", planned):
                return run()

        return call


CHOICES = {
    FORWARD: [Choice(r, tiles) for r, tiles in product((32, 40, 48, 64), (1, 2, 4, 8))],
    BACKWARD: [Choice(r) for r in (56, 64, 72, 80, 88, 96)],
}


def compile_choice(unit: str, dtype: str, work: str, choice: Choice) -> None:
    """Run it once, for Triton's cache on disk."""
    x = torch.zeros(SHAPES[UNITS[unit]], dtype=DTYPES[dtype], device="cuda")
    choice.on(make_problem(unit, x, x).run(work))()
    torch.cuda.synchronize()


def measure(unit: str, dtype: str, work: str, rounds: int) -> Iterator[str]:
    """Rows of the table."""
    calls = make_calls(UNITS[unit], dtype, work, None)
    timed: Calls = {GPU_FLOOR: calls[GPU_FLOOR], "as planned": calls[unit]}
    timed |= {str(choice): choice.on(calls[unit]) for choice in CHOICES[work]}
    times = {name: row["p50"] for name, row in interleave_events(timed, rounds=rounds).items()}
    floor = times.pop(GPU_FLOOR)
    planned = times.pop("as planned")
    for name, ms in [("as planned", planned), *sorted(times.items(), key=lambda row: row[1])]:
        yield f"| {unit} | {dtype} | {work} | {name} | {ms:.4f} | {ms / floor:.3f} |"


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--units", nargs="+", choices=UNITS, default=list(UNITS), metavar="NAME")
    p.add_argument("--dtypes", nargs="+", choices=DTYPES, default=list(DTYPES))
    p.add_argument("--works", nargs="+", choices=WORKS, default=list(WORKS))
    p.add_argument("--rounds", type=int, default=3, help="of 20 samples of each choice")
    args = p.parse_args()
    if not torch.cuda.is_available():
        sys.exit("this needs a CUDA device, and torch finds none")
    if reason := gpu.missing():
        sys.exit(f"this needs the GPU kernels: {reason}")
    cases = list(product(args.units, args.dtypes, args.works))
    jobs = [(*case, choice) for case in cases for choice in CHOICES[case[2]]]
    workers = min(12, os.cpu_count() or 1)
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for done in [pool.submit(compile_choice, *job) for job in jobs]:
            done.result()
    made = describe_gpu()
    print(f"{made['gpu']}, torch {torch.__version__}, Triton {made['triton']}\n")
    print("| unit | dtype | work | choice | ms | × floor |\n|---|---|---|---|---:|---:|")
    for case in cases:
        for row in measure(*case, args.rounds):
            print(row, flush=True)


if __name__ == "__main__":
    main()
