"""Interleaved timing, allocator states, provenance and records, for any benchmark here."""

import gc
import json
import os
import platform
import random
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple

import torch

import padenet

try:
    import resource
except ImportError:  # Windows
    resource = None

HERE = Path(__file__).parent
Record = dict[str, Any]

_KEEP = {  # without the cache of small blocks, or an aligned block never fits where it was freed
    "mmap_max": 0,
    "trim_threshold": 1 << 36,
    "top_pad": 1 << 26,
    "tcache_count": 0,
    "mxfast": 0,
}
ALLOCATORS = {
    "warm": {"GLIBC_TUNABLES": ":".join(f"glibc.malloc.{k}={v}" for k, v in _KEEP.items())},
    "default": {},
    "returning": {"MALLOC_MMAP_THRESHOLD_": "65536"},
}
"""Environment of a process, by what its glibc allocator does with a large block that is freed.

    warm        keeps it and hands it out again: no page faults after the first calls
    default     gives it back to the system above 32 MB, so that the next one is faulted in anew,
                and keeps smaller ones or not, depending on what came before
    returning   gives back every block above 64 KB at once: resident memory is what is alive
"""


def run_part(script: str, part: str, allocator: str, *arguments: str) -> Record:
    """What ``script --part part`` prints as JSON, in a process of its own with that allocator."""
    unset = ("GLIBC_TUNABLES", "MALLOC_")
    env = {k: v for k, v in os.environ.items() if not k.startswith(unset)}
    env |= ALLOCATORS[allocator] | {"TORCHINDUCTOR_COMPILE_THREADS": "1"}
    command = [sys.executable, script, "--part", part, *arguments]
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(done.returncode)
    return json.loads(done.stdout)


class Sample(NamedTuple):
    wall: float
    cpu: float
    faults: float


def count_faults() -> int:
    """Page faults of this process so far, in all threads."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt if resource else 0


def interleave(
    calls: Mapping[str, Callable[[], object]],
    seconds: float,
    *,
    repeats: int = 1,
    least: int = 3,
    synchronize: Callable[[], None] = lambda: None,
) -> dict[str, Record]:
    """Times in ms of one call of each, measured in turns for about ``seconds``.

    Every round visits the candidates in a new order and times two samples of each, of ``repeats``
    calls, after one that is not timed: each then meets its own caches and its own free blocks,
    whoever came before. Candidates far slower than the others sit out rounds, and ``least`` rounds
    take place however long they last. p20, p50 and p80 are of wall time; ``cpu_p50`` is time on the
    processor in all threads, which for one thread is free of what else the machine is doing.
    """

    def sample(call: Callable[[], object]) -> Sample:
        faults, busy, start = count_faults(), time.process_time_ns(), time.perf_counter_ns()
        for _ in range(repeats):
            call()
        synchronize()
        wall = time.perf_counter_ns() - start
        busy = time.process_time_ns() - busy
        each = 1e-6 / repeats
        return Sample(wall * each, busy * each, (count_faults() - faults) / repeats)

    for call in calls.values():
        sample(call)
    cost = {name: min(sample(call).wall for _ in range(2)) for name, call in calls.items()}
    typical = statistics.median(cost.values())
    every = {name: min(5, max(1, round(c / typical / 2))) for name, c in cost.items()}

    samples: dict[str, list[Sample]] = {name: [] for name in calls}
    names, shuffle, rounds = list(calls), random.Random(0).shuffle, 0
    deadline = time.monotonic() + seconds
    gc.collect()
    gc.disable()
    try:
        while rounds < least or time.monotonic() < deadline:
            shuffle(names)
            for name in names:
                if rounds % every[name] == 0:
                    sample(calls[name])
                    samples[name] += [sample(calls[name]) for _ in range(2)]
            rounds += 1
    finally:
        gc.enable()
    return {name: summarize(s) for name, s in samples.items()}


def summarize(samples: list[Sample]) -> Record:
    return quantiles([s.wall for s in samples]) | {
        "cpu_p50": round(statistics.median(s.cpu for s in samples), 6),
        "samples": len(samples),
        "page_faults": round(statistics.median(s.faults for s in samples), 1),
    }


def interleave_events(
    calls: Mapping[str, Callable[[], object]],
    *,
    rounds: int = 10,
    repeats: int = 20,
    pause: float = 2.0,
) -> dict[str, Record]:
    """Times in ms of one call of each on the GPU, by CUDA events, measured in turns.

    Before each call 256 MB are overwritten, as ``triton.testing.do_bench`` does, so that nothing is
    read from the cache. A turn starts with a pause of the GPU, of so many ms, in which the host
    runs ahead: what it takes to launch is then no part of the times.
    """
    other = torch.empty(2**26, dtype=torch.int32, device="cuda")

    def sample(call: Callable[[], object], count: int) -> list[float]:
        events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(count)]
        torch.cuda._sleep(int(2e6 * pause))  # cycles
        for start, end in events:
            other.zero_()
            start.record()
            call()
            end.record()
        torch.cuda.synchronize()
        return [start.elapsed_time(end) for start, end in events]

    for call in calls.values():
        sample(call, 3)
    samples: dict[str, list[float]] = {name: [] for name in calls}
    names, shuffle = list(calls), random.Random(0).shuffle
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            shuffle(names)
            for name in names:
                samples[name] += sample(calls[name], repeats + 2)[2:]
    finally:
        gc.enable()
    return {name: quantiles(s) | {"samples": len(s)} for name, s in samples.items()}


def quantiles(times: list[float]) -> Record:
    tenths = statistics.quantiles(times, n=10, method="inclusive")
    return {f"p{10 * i}": round(tenths[i - 1], 6) for i in (2, 5, 8)}


def describe() -> Record:
    """Where and on what a record was made. No host names, no paths."""
    changes = _git("status", "--porcelain", "--", ":/", ":!results")
    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "os": f"{platform.system()} {platform.release()}",
        "libc": " ".join(platform.libc_ver()),
        "huge_pages": _read("/sys/kernel/mm/transparent_hugepage/enabled"),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "padenet": padenet.__version__,
        "backends": {k: hide_paths(v) for k, v in padenet.backends().items()},
        "commit": _git("rev-parse", "HEAD"),
        "dirty": None if changes is None else changes != "",
    }


def describe_gpu() -> Record:
    """The GPU and what drives it."""
    import triton

    return {
        "gpu": torch.cuda.get_device_name(),
        "driver": _driver(),
        "cuda": torch.version.cuda,
        "triton": triton.__version__,
    }


def hide_paths(text: str) -> str:
    return re.sub(r"\S*[/\\]\S+", "…", text)


def load() -> float | None:
    """Processes that ran or waited over the last minute, where the system tells."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def save(record: Record, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_text(dump(record), encoding="utf-8")
    part.replace(path)


def dump(record: Record) -> str:
    """JSON with one line per row, so that a changed record reads well as a diff."""
    blocks = []
    for key, value in record.items():
        if isinstance(value, list) and value:
            lines = ",\n".join(f"  {json.dumps(v, ensure_ascii=False)}" for v in value)
            text = f"[\n{lines}\n ]"
        else:
            text = json.dumps(value, ensure_ascii=False, indent=2).replace("\n", "\n ")
        blocks.append(f" {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def _cpu_model() -> str:
    names = re.findall(r"^model name\s*:\s*(.+)$", _read("/proc/cpuinfo") or "", re.MULTILINE)
    return names[0] if names else platform.processor() or platform.machine()


def _driver() -> str | None:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.split("\n")[0].strip() or None


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None


def _git(*arguments: str) -> str | None:
    """What git prints, or None without git or a commit."""
    command = ["git", "-C", str(HERE), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
