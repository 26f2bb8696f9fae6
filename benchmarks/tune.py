"""What the GPU kernels take with other choices than their plan's: python benchmarks/tune.py

Tries how many registers a thread may have. In forward also how many tiles it loads together, and
how many a program takes in all (steps). In backward and with RPAU also the share of the tiles which
come to each program if all run at once: with 100 percent they do (if no sum becomes too long by
that), with 50 they run in two waves, with 90 in a long wave and a short one. With 25 percent early
the first programs of the first wave are by so much shorter than the last.
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

from padenet.torch.kernels import gpu
from padenet.torch.kernels.gpu import plan
from padenet.torch.kernels.gpu.plan import Plan

UNITS = {
    "PAU": "large",
    "RPAU": "large",
    "PAU, 8 groups": "groups",
    "PAU, 64 groups": "channels",
    "PAU, 64 groups, channels_last": "channels",
}
WORKS = (FORWARD, BACKWARD)
REGISTERS = {FORWARD: (32, 40, 48, 64), BACKWARD: (56, 64, 72, 80, 88, 96)}
NOISY_REGISTERS = (64, 72, 80, 88, 96, 112, 128)
TILES = (1, 2, 4, 8)
STEPS = (0,)
SHARES = (50, 80, 96, 100)
EARLY = (0, 25, 50)


class Choice(NamedTuple):
    """0: as planned."""

    registers: int = 0
    tiles: int = 0
    steps: int = 0
    share: int = 0
    early: int = 0

    def __str__(self) -> str:
        words = (f"{n} {what}" for n, what in zip(self, Choice._fields, strict=True) if n)
        return ", ".join(words) or "as planned"

    def waves(self, length: int, most: int, *case: object) -> tuple[int, int]:
        """In place of ``plan._waves``."""
        steps = max(1, min(most, length * self.share // 100))
        return steps, steps * self.early // 100

    def plan_for(self, *arguments: object) -> Plan:
        """What ``plan.plan_for`` makes of this choice."""
        tiles, registers = plan._forward_tiles, plan._registers

        def other_tiles(*case: int) -> tuple[int, int]:
            steps, batch = tiles(*case)
            return max(self.steps or steps, self.tiles), self.tiles or batch

        with (
            mock.patch.object(plan, "_forward_tiles", other_tiles),
            mock.patch.object(plan, "_registers", lambda *a: self.registers or registers(*a)),
            mock.patch.object(plan, "_waves", self.waves if self.share else plan._waves),
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


def choices(unit: str, work: str, args: argparse.Namespace) -> list[Choice]:
    """All to be tried, the plan's own first."""
    noisy = unit == "RPAU"
    registers = args.registers or (0, *(NOISY_REGISTERS if noisy else REGISTERS[work]))
    in_waves = noisy or work == BACKWARD  # else a program has a fixed number of tiles
    waves = product([0], [0], args.shares, args.early)
    others = waves if in_waves else product(args.tiles, args.steps, [0], [0])
    tried = (Choice(r, *other) for r, other in product(registers, others))
    return list(dict.fromkeys([Choice(), *tried]))


def compile_choice(unit: str, dtype: str, work: str, choice: Choice) -> None:
    """Run it once, for Triton's cache on disk."""
    x = torch.zeros(SHAPES[UNITS[unit]], dtype=DTYPES[dtype], device="cuda")
    choice.on(make_problem(unit, x, x).run(work))()
    torch.cuda.synchronize()


def measure(unit: str, dtype: str, work: str, tried: list[Choice], rounds: int) -> Iterator[str]:
    """Rows of the table."""
    calls = make_calls(UNITS[unit], dtype, work, None)
    timed: Calls = {GPU_FLOOR: calls[GPU_FLOOR]}
    timed |= {str(choice): choice.on(calls[unit]) for choice in tried}
    times = {name: row["p50"] for name, row in interleave_events(timed, rounds=rounds).items()}
    floor = times.pop(GPU_FLOOR)
    own = str(Choice())
    for name, ms in sorted(times.items(), key=lambda row: (row[0] != own, row[1])):
        yield f"| {unit} | {dtype} | {work} | {name} | {ms:.4f} | {ms / floor:.3f} |"


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--units", nargs="+", choices=UNITS, default=list(UNITS), metavar="NAME")
    p.add_argument("--dtypes", nargs="+", choices=DTYPES, default=list(DTYPES))
    p.add_argument("--works", nargs="+", choices=WORKS, default=list(WORKS))
    p.add_argument("--registers", nargs="+", type=int, metavar="N", help="0: as planned")
    p.add_argument("--tiles", nargs="+", type=int, metavar="N", default=TILES, help="in forward")
    p.add_argument("--steps", nargs="+", type=int, metavar="N", default=STEPS, help="in forward")
    p.add_argument(
        "--shares", nargs="+", type=int, metavar="PERCENT", default=SHARES, help="in backward, RPAU"
    )
    p.add_argument(
        "--early", nargs="+", type=int, metavar="PERCENT", default=EARLY, help="in backward, RPAU"
    )
    p.add_argument("--rounds", type=int, default=3, help="of 20 samples of each choice")
    args = p.parse_args()
    if not torch.cuda.is_available():
        sys.exit("this needs a CUDA device, and torch finds none")
    if reason := gpu.missing():
        sys.exit(f"this needs the GPU kernels: {reason}")
    cases = {
        (unit, dtype, work): choices(unit, work, args)
        for unit, dtype, work in product(args.units, args.dtypes, args.works)
    }
    jobs = {(*case, c._replace(share=0, early=0)) for case, tried in cases.items() for c in tried}
    workers = min(12, os.cpu_count() or 1)
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for done in [pool.submit(compile_choice, *job) for job in jobs]:
            done.result()
    made = describe_gpu()
    print(f"{made['gpu']}, torch {torch.__version__}, Triton {made['triton']}\n")
    print("| unit | dtype | work | choice | ms | × floor |\n|---|---|---|---|---:|---:|")
    for case, tried in cases.items():
        for row in measure(*case, tried, args.rounds):
            print(row, flush=True)


if __name__ == "__main__":
    main()
