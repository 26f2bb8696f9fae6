"""Speed and memory of the activations on the CPU, against torch's own and against bars.

    python benchmarks/cpu.py                # some four minutes
    python benchmarks/cpu.py --quick        # some one and a half
    python benchmarks/cpu.py --plain        # the plain path beside the kernel, on one thread

Checks the units against the float64 reference, measures all candidates in turns, prints tables
and writes ``benchmarks/results/cpu.json``, or ``plain.json``. See ``benchmarks/README.md``.
"""

import argparse
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import torch
from bars import BOTH, FORWARD, judge, measure_noise
from candidates import (
    BARE,
    FLOOR,
    PLAIN,
    UNITS,
    Candidate,
    check,
    formula,
    make_candidates,
    make_inputs,
    train_step,
)
from measure import HERE, Record, describe, interleave, load, run_part, save
from memory import resident_peak, saved_bytes, trace_peak
from table import PARTS, render
from torch import Tensor

import padenet

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
SMALL = (64, 512)
SMALL_NAMES = ("relu", "prelu", "gelu", BARE, "PAU")
COLD_NAMES = (FLOOR, "relu", "gelu", "PAU")
PLAIN_NAMES = (FLOOR, "relu", "gelu", "PAU", PLAIN)
MEMORY_NAMES = ("relu", "gelu", "prelu", "eager formula", *UNITS)
Calls = dict[str, Callable[[], object]]
Inputs = dict[torch.memory_format, tuple[Tensor, Tensor]]


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def make_calls(found: dict[str, Candidate], inputs: Inputs, work: str) -> Calls:
    """A call of each candidate without arguments, the floor first where there is room for it.

    Each has inputs of its own: of shared ones the layout that most candidates read would be in the
    processor's cache, and the other one not.
    """
    x, dy = inputs[torch.contiguous_format]
    if work == FORWARD:
        calls: Calls = {FLOOR: x.clone}
        for name, c in found.items():
            calls[name] = partial(c.run, own(inputs[c.layout])[0])
        return calls

    raw = x.detach()

    def floor() -> Tensor:
        y = raw.clone()
        torch.add(raw, dy)
        return y

    calls = {FLOOR: floor}
    return calls | {n: train_step(c, *own(inputs[c.layout])) for n, c in found.items()}


def own(pair: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    x, dy = (t.detach().clone() for t in pair)
    return x.requires_grad_(), dy


def measure(
    shape: Sequence[int],
    dtype: str,
    work: str,
    names: Sequence[str] | None,
    seconds: float,
    *,
    repeats: int = 1,
    compiled: bool = False,
) -> Iterator[Record]:
    """Rows of one round-robin over the candidates, all of them if no names are given."""
    inputs = make_inputs(shape, DTYPES[dtype])
    bare = names is not None and BARE in names
    found = make_candidates(DTYPES[dtype], compiled=compiled, bare=bare)
    found = {n: c for n, c in found.items() if (names is None or n in names) and c.layout in inputs}
    with torch.set_grad_enabled(work != FORWARD):
        calls = make_calls(found, inputs, work)
        calls = {n: call for n, call in calls.items() if names is None or n in names}
        share = 2 / 3 if work == FORWARD else 4 / 3
        done = interleave(calls, seconds * share, repeats=repeats)
    for name, row in done.items():
        yield {"candidate": name, "work": work, "dtype": dtype, "shape": list(shape)} | row


def time_part(args: argparse.Namespace) -> Record:
    """Correctness first, then the large shape with a warm allocator."""
    small = (3, args.shape[1], 17, 13)  # for two threads, and no multiple of anything
    for threads in args.threads:
        torch.set_num_threads(threads)
        for dtype in DTYPES.values():
            if wrong := check(small, dtype):
                say("\n".join(["The units are wrong, nothing was measured:", *wrong]))
                sys.exit(1)
    say(f"units agree with the float64 reference; native: {padenet.backends()['native']}")
    names = PLAIN_NAMES if args.plain else None
    compiled = args.compile and not args.plain and can_compile()
    found = [
        row | {"threads": threads, "size": "large", "allocator": "warm"}
        for threads, dtype, work in sections(args)
        for row in measure(args.shape, dtype, work, names, args.seconds, compiled=compiled)
    ]
    return {"rows": found, "allocator": allocator_state(found)}


def default_part(args: argparse.Namespace) -> Record:
    """The small shape, and with --cold the large one, with the allocator as users have it."""
    found = []
    for threads, dtype, work in sections(args):
        same = {"threads": threads, "allocator": "default"}
        if dtype == "float32":
            rows = measure(SMALL, dtype, work, SMALL_NAMES, args.seconds / 3, repeats=20)
            found += [row | same | {"size": "small"} for row in rows]
        if args.cold:
            rows = measure(args.shape, dtype, work, COLD_NAMES, args.seconds / 3)
            found += [row | same | {"size": "large"} for row in rows]
    return {"rows": found, "allocator": allocator_state(found)}


def memory_part(args: argparse.Namespace) -> Record:
    """Peaks and saved bytes, in units of the bytes of x where the name does not say bytes."""
    found = [row for section in sections(args) for row in memory_rows(args, *section)]
    return {"memory": found, "allocator": allocator_state([])}


def memory_rows(args: argparse.Namespace, threads: int, dtype: str, work: str) -> Iterator[Record]:
    inputs = make_inputs(args.shape, DTYPES[dtype])
    found = make_candidates(DTYPES[dtype], compiled=False)
    with torch.set_grad_enabled(work != FORWARD):
        calls = make_calls(found, inputs, work)
        for name in MEMORY_NAMES:
            if name not in UNITS and threads != args.threads[0]:
                continue
            c, call = found[name], calls[name]
            x = inputs[c.layout][0]
            call()
            traced = trace_peak(call)
            grown = [resident_peak(call) for _ in range(2)]
            resident = None if None in grown else min(grown) / x.nbytes
            with torch.enable_grad():
                saved, other = saved_bytes(lambda c=c, x=x: c.run(x), [x, *c.parameters])
            yield {
                "candidate": name,
                "work": work,
                "dtype": dtype,
                "threads": threads,
                "outputs": 1 if work == FORWARD else 2,  # y; y and dx
                "peak_traced": round(traced / x.nbytes, 4),
                "peak_resident": None if resident is None else round(resident, 4),
                "saved": round(saved / x.nbytes, 4),
                "saved_else_bytes": other,
            }


def sections(args: argparse.Namespace) -> Iterator[tuple[int, str, str]]:
    """The default allocator is coldest before small blocks have come, hence float32 first."""
    for dtype in DTYPES:
        for threads in args.threads:
            torch.set_num_threads(threads)
            for work in (FORWARD, BOTH):
                say(f"{args.part}: {threads} threads, {dtype}, {work}")
                yield threads, dtype, work


def can_compile() -> bool:
    try:
        torch.compile(formula)(torch.zeros(2), torch.ones(6), torch.ones(4))
    except Exception as e:  # whatever the toolchain lacks
        say(f"without torch.compile: {str(e).splitlines()[0]}")
        return False
    return True


def allocator_state(rows: Sequence[Record]) -> Record:
    """How this process was told to treat freed blocks, and whether a call costs page faults."""
    settings = {k: v for k, v in os.environ.items() if k.startswith(("GLIBC_TUNABLES", "MALLOC_"))}
    faults = max((row["page_faults"] for row in rows), default=None)
    return {"settings": settings, "most_page_faults": faults}


PROCESSES = {  # part: the allocator it runs with, and what it does
    "time": ("warm", time_part),
    "default": ("default", default_part),
    "memory": ("returning", memory_part),
}


def collect(args: argparse.Namespace, arguments: Sequence[str]) -> Record:
    """Every part in a process of its own, put together."""
    made = describe() | {"quick": args.quick, "load_before": load()}
    processes = {p: env for p, (env, _) in PROCESSES.items() if p == "time" or not args.plain}
    found = {p: run_part(__file__, p, env, *arguments) for p, env in processes.items()}
    record: Record = {
        "benchmark": "plain" if args.plain else "cpu",
        "made": made | {"load_after": load()},
        "allocator": {env: found[p]["allocator"] for p, env in processes.items()},
        "rows": [row for part in found.values() for row in part.get("rows", ())],
        "memory": [row for part in found.values() for row in part.get("memory", ())],
    }
    if record["allocator"]["warm"]["most_page_faults"] > 100:
        say("This allocator does not keep freed blocks: page faults are part of the times.")
    if args.plain:
        return record
    noise = [measure_noise(record["rows"], threads) for threads in args.threads]
    return record | {"bars": judge(record), "noise": noise}


def main(arguments: Sequence[str]) -> None:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--quick", action="store_true", help="a fifth of the measuring time")
    p.add_argument("--cold", action="store_true", help="also time with the default allocator")
    p.add_argument("--plain", action="store_true", help="the plain path, beside few others")
    p.add_argument("--no-compile", dest="compile", action="store_false")
    p.add_argument("--threads", type=int, nargs="+", help="1 and 2; 1 with --plain")
    p.add_argument("--shape", type=int, nargs=4, default=[256, 64, 28, 28], help="channels: 64 k")
    p.add_argument("--out", type=Path, help="results/cpu.json or plain.json beside this file")
    p.add_argument("--part", choices=PROCESSES, help=argparse.SUPPRESS)
    args = p.parse_args(arguments)
    args.threads = args.threads or ([1] if args.plain else [1, 2])
    args.out = args.out or HERE / "results" / ("plain.json" if args.plain else "cpu.json")
    args.seconds = 2.6 if args.quick else 13.0
    warnings.filterwarnings("ignore", "padenet runs on plain PyTorch", RuntimeWarning)
    if args.part:
        print(json.dumps(PROCESSES[args.part][1](args)))
        return
    record = collect(args, arguments)
    save(record, args.out)
    parts = [part for part in PARTS[record["benchmark"]] if part != "cold" or args.cold]
    print(render(record, parts))


if __name__ == "__main__":
    main(sys.argv[1:])
