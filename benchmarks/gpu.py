"""Speed of the activations on a GPU, against the memory floor, torch's own and bars.

    python benchmarks/gpu.py                # most of the time goes into compiling
    python benchmarks/gpu.py --no-compile   # without what torch.compile makes
    python benchmarks/gpu.py --chain        # a compiled chain alone, PAU against ReLU: no record
    ncu --profile-from-start off ... python benchmarks/gpu.py --once    # for hardware counters

Checks the kernels against the float64 reference, measures all candidates in turns, prints tables
and writes ``benchmarks/results/gpu.json``. See ``benchmarks/README.md``. Exit codes: 1 if a unit is
wrong, 2 without a CUDA device; failed bars are shown and are no error.
"""

import argparse
import json
import os
import select
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from bars import BACKWARD, BOTH, FORWARD, GPU_FLOOR, judge_gpu
from gpu_cases import (
    DTYPES,
    SHAPES,
    SMALL,
    Calls,
    check,
    compile_formula,
    compile_kernel,
    kernel_jobs,
    make_calls,
    make_chain_call,
    make_small_calls,
)
from measure import (
    HERE,
    Record,
    describe,
    describe_gpu,
    hide_paths,
    interleave,
    interleave_events,
    save,
)
from table import render

from padenet.torch.kernels import gpu

# Named, for torch.compile would choose another for this process than its workers fill.
os.environ.setdefault("TRITON_CACHE_DIR", str(Path.home() / ".triton" / "cache"))
WORKERS = min(12, os.cpu_count() or 1)
CHAIN = ("relu", "PAU")
MEASURING = 20.0  # seconds that the compiled chain is given, however late it is
BEGIN = time.monotonic()


def say(text: str) -> None:
    print(f"{time.monotonic() - BEGIN:5.1f} s  {text}", file=sys.stderr, flush=True)


def left(limit: float) -> float:
    """Seconds until ``limit`` seconds after the start."""
    return max(0.0, BEGIN + limit - time.monotonic())


def describe_error(e: BaseException) -> str:
    lines = [line.strip() for line in str(e).splitlines() if line.strip()]
    return hide_paths(f"{type(e).__name__}: {' '.join(lines[:3])}")[:300]


def start(*arguments: str, threads: int = 1, **options: object) -> subprocess.Popen:
    """This script with other arguments, in a process group of its own."""
    env = os.environ | {"TORCHINDUCTOR_COMPILE_THREADS": str(threads)}
    command = [sys.executable, __file__, *arguments]
    return subprocess.Popen(command, env=env, text=True, start_new_session=True, **options)


def stop(process: subprocess.Popen) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def warm(claims: Path) -> None:
    """Compile what no other worker has claimed yet, for Triton's cache on disk."""
    for i, job in enumerate(kernel_jobs()):
        try:
            (claims / str(i)).touch(exist_ok=False)
        except FileExistsError:
            continue
        compile_kernel(*job)


def compile_chain() -> tuple[Calls, dict[str, str]]:
    """The compiled chains by name, and what went wrong."""
    calls, errors = {}, {}
    for name in CHAIN:
        try:
            call = make_chain_call(name)
            call()
            torch.cuda.synchronize()
            calls[name] = call
        except Exception as e:  # whatever torch.compile does not take
            errors[f"chain, {name}"] = describe_error(e)
    return calls, errors


def measure_chain(calls: Calls) -> list[Record]:
    same = {"work": BOTH, "dtype": "bfloat16", "shape": list(SHAPES["channels"]), "size": "chain"}
    # Of a compiled net the host takes some ms to launch forward and backward.
    done = interleave_events(calls, repeats=10, pause=60.0) if calls else {}
    return [{"candidate": n} | same | r for n, r in done.items()]


def serve_chain() -> None:
    """Compile the chains, say so, wait for a line, and print the rows and errors as JSON."""
    calls, errors = compile_chain()
    print("ready", flush=True)
    if sys.stdin.readline():
        print(json.dumps({"rows": measure_chain(calls), **errors}))


def run_chain() -> None:
    """The chains alone: a line for each, and the ratio."""
    calls, errors = compile_chain()
    say("the chains are compiled")
    rows = {row["candidate"]: row for row in measure_chain(calls)}
    for name, row in rows.items():
        print(f"{name:5} {row['p50']:.3f} ms ({row['p20']:.3f}–{row['p80']:.3f}), {BOTH}")
    for name, error in errors.items():
        print(f"{name}: {error}")
    if errors:
        sys.exit(1)
    print(f"PAU / relu {rows['PAU']['p50'] / rows['relu']['p50']:.3f}")


class Chain:
    """The compiled chains in a process of their own, which may take too long or break."""

    def __init__(self, wanted: bool):
        self.process: subprocess.Popen | None = None
        self.text = "not measured: --no-compile"
        if wanted:
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            self.process = start("--serve-chain", threads=4, **pipes)

    def wait(self, limit: float) -> None:
        """Until it is compiled; after ``limit`` seconds without it."""
        if self.process is None:
            return
        ready, _, _ = select.select([self.process.stdout], [], [], left(limit))
        if not ready or self.process.stdout.readline() != "ready\n":
            self.give_up(f"not compiled {limit:g} s after the start" if not ready else "it broke")

    def measure(self, limit: float) -> tuple[list[Record], dict[str, str]]:
        """Rows, and by name what went wrong."""
        if self.process is None:
            return [], {"chain": self.text}
        try:
            printed, _ = self.process.communicate("go\n", timeout=max(left(limit), MEASURING))
            errors = json.loads(printed)
        except (subprocess.TimeoutExpired, json.JSONDecodeError) as e:
            self.give_up(describe_error(e))
            return [], {"chain": self.text}
        return errors.pop("rows"), errors

    def give_up(self, text: str) -> None:
        say(f"without the chain: {text}")
        stop(self.process)
        self.process, self.text = None, text


def compile_all(workers: Sequence[subprocess.Popen], wanted: bool) -> tuple[Callable | None, dict]:
    """The compiled formula, made while the workers compile the kernels, or what went wrong."""
    fused, errors = None, {}
    if wanted:
        try:
            fused = compile_formula()
            say("the formula is compiled")
        except Exception as e:
            errors["formula"] = describe_error(e)
            say(f"without the compiled formula: {errors['formula']}")
    else:
        errors["formula"] = "not measured: --no-compile"
    for i, process in enumerate(workers):
        if process.wait():
            sys.exit(f"worker {i} of {len(workers)}, which compiles kernels, failed: see above")
    say("the kernels are compiled")
    return fused, errors


def check_all() -> list[Record]:
    found = list(check())
    wrong = [
        f"{row['unit']}, {tuple(row['shape'])}, {row['dtype']}: {what} is off by "
        f"{row[what]:.1f} times the bound"
        for row in found
        for what in ("y", "dx", "da", "db")
        if not row[what] <= 1
    ]
    if wrong:
        say("\n".join(["the units are wrong, nothing was measured:", *wrong]))
        sys.exit(1)
    say("units agree with the float64 reference")
    return found


def run_once() -> None:
    """Name and run the floors and PAU's kernels, between marks that a profiler looks for."""
    for size, dtype, work in product(SHAPES, DTYPES, (FORWARD, BACKWARD)):
        for name, call in make_calls(size, dtype, work, None).items():
            if name == GPU_FLOOR or name.startswith("PAU"):
                call()
                torch.cuda.synchronize()
                print(f"{work}, {dtype}, {SHAPES[size]}, {name}", flush=True)
                torch.cuda.profiler.start()
                call()
                torch.cuda.synchronize()
                torch.cuda.profiler.stop()


def measure_all(fused: Callable | None, rounds: int) -> list[Record]:
    rows = []
    for size, shape in SHAPES.items():
        for dtype in DTYPES:
            for work in (FORWARD, BACKWARD):
                done = interleave_events(make_calls(size, dtype, work, fused), rounds=rounds)
                same = {"work": work, "dtype": dtype, "shape": list(shape), "size": size}
                rows += [{"candidate": name} | same | row for name, row in done.items()]
            say(f"{size}, {dtype}")
        torch.cuda.empty_cache()
    done = interleave(
        make_small_calls(), 3.0, repeats=50, least=15, synchronize=torch.cuda.synchronize
    )
    same = {"work": BOTH, "dtype": "float32", "shape": list(SMALL), "size": "small"}
    return rows + [{"candidate": name} | same | row for name, row in done.items()]


def collect(args: argparse.Namespace, workers: list[subprocess.Popen], chain: Chain) -> Record:
    made = describe() | describe_gpu()
    if args.commit:
        made |= {"commit": args.commit, "dirty": None}  # nothing here can tell
    fused, errors = compile_all(workers, args.compile)
    chain.wait(args.compile_limit)
    checks = check_all()
    rows = measure_all(fused, args.rounds)

    def record(rows: list[Record], errors: dict[str, str]) -> Record:
        spread = statistics.median((r["p80"] - r["p20"]) / r["p50"] for r in rows)
        found: Record = {"benchmark": "gpu", "made": made, "rows": rows, "checks": checks}
        found |= {"bars": judge_gpu(found), "errors": errors, "spread": round(spread, 4)}
        save(found, args.out)
        return found

    record(rows, errors | {"chain": "not measured: the run was cut off"})
    more, broken = chain.measure(args.limit)
    say("done")
    return record(rows + more, errors | broken)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--no-compile", dest="compile", action="store_false")
    p.add_argument("--rounds", type=int, default=10, help="of 20 samples of each candidate")
    p.add_argument("--compile-limit", type=float, default=45, help="seconds to compile the chain")
    p.add_argument("--limit", type=float, default=85, help="seconds until the chain is cut off")
    p.add_argument("--commit", help="what is measured, where git cannot tell")
    p.add_argument("--out", type=Path, default=HERE / "results" / "gpu.json")
    p.add_argument("--warm", type=Path, help=argparse.SUPPRESS)
    p.add_argument("--chain", action="store_true", help="the compiled chain alone, no record")
    p.add_argument("--once", action="store_true", help="each kernel once, for a profiler")
    p.add_argument("--serve-chain", action="store_true", help=argparse.SUPPRESS)
    args = p.parse_args()
    if not torch.cuda.is_available():
        say("this benchmark needs a CUDA device, and torch finds none")
        sys.exit(2)
    if reason := gpu.missing():
        say(f"this benchmark needs the GPU kernels: {reason}")
        sys.exit(2)
    if args.warm:
        warm(args.warm)
    elif args.serve_chain:
        serve_chain()
    elif args.chain:
        run_chain()
    elif args.once:
        run_once()
    else:
        run(args)


def run(args: argparse.Namespace) -> None:
    with TemporaryDirectory() as claims:
        workers = [start("--warm", claims) for _ in range(WORKERS)]
        chain = Chain(args.compile)
        try:
            print(render(collect(args, workers, chain)))
        finally:
            for process in (*workers, chain.process):
                if process is not None:
                    stop(process)


if __name__ == "__main__":
    main()
