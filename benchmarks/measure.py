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
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

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
    default     gives it back to the system above 32 MB, so every large tensor is faulted in anew
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
    """p20, p50 and p80 in ms of one call of each, measured in turns for about ``seconds``.

    Every round visits the candidates in a new order and times two samples of each, of ``repeats``
    calls, after one that is not timed: each then meets its own caches and its own free blocks,
    whoever came before. Candidates far slower than the others sit out rounds, and ``least`` rounds
    take place however long they last.
    """

    def sample(call: Callable[[], object]) -> tuple[float, float]:
        faults, start = count_faults(), time.perf_counter_ns()
        for _ in range(repeats):
            call()
        synchronize()
        ms = (time.perf_counter_ns() - start) * 1e-6
        return ms / repeats, (count_faults() - faults) / repeats

    for call in calls.values():
        sample(call)
    cost = {name: min(sample(call)[0] for _ in range(2)) for name, call in calls.items()}
    typical = statistics.median(cost.values())
    every = {name: min(5, max(1, round(c / typical / 4))) for name, c in cost.items()}

    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
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


def summarize(samples: list[tuple[float, float]]) -> Record:
    times, faults = zip(*samples, strict=True)
    tenths = statistics.quantiles(times, n=10, method="inclusive")
    return {
        "p20": round(tenths[1], 6),
        "p50": round(tenths[4], 6),
        "p80": round(tenths[7], 6),
        "samples": len(times),
        "page_faults": round(statistics.median(faults), 1),
    }


def describe() -> Record:
    """Where and on what a record was made. No host names, no paths."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "os": f"{platform.system()} {platform.release()}",
        "libc": " ".join(platform.libc_ver()),
        "huge_pages": _read("/sys/kernel/mm/transparent_hugepage/enabled"),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "padenet": padenet.__version__,
        "backends": {k: re.sub(r"\S*[/\\]\S+", "…", v) for k, v in padenet.backends().items()},
        "commit": _git("rev-parse", "HEAD"),
        "dirty": _git("status", "--porcelain", "--", ":/", ":!results") != "",
        "load": [round(v, 2) for v in os.getloadavg()] if hasattr(os, "getloadavg") else None,
    }


def save(record: Record, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_text(dump(record), encoding="utf-8")
    part.replace(path)


def dump(record: Record) -> str:
    """JSON with one line a row, so that a changed record reads well as a diff."""
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
