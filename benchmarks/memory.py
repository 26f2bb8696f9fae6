"""Peak memory of a call and what it keeps for backward.

Two peaks, because each is blind to something: ``trace_peak`` counts what torch's allocator hands
out, to the byte; ``resident_peak`` counts the pages of the whole process, so it also sees what a
kernel takes from the system by itself, but needs Linux and an allocator that returns freed blocks.
"""

import contextlib
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile


def trace_peak(call: Callable[[], object]) -> int:
    """The most bytes of torch's CPU allocator alive at one time during the call."""
    with _silent(), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as trace:
        call()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        trace.export_chrome_trace(str(path))
        events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    steps = [e for e in events if e.get("name") == "[memory]"]
    alive = peak = 0
    for step in sorted(steps, key=lambda e: e["ts"]):
        alive += step["args"]["Bytes"]
        peak = max(peak, alive)
    return peak


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Without what the profiler's library writes to the error stream whatever its log level."""
    sys.stderr.flush()
    kept = os.dup(2)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def resident_peak(call: Callable[[], object]) -> int | None:
    """The most bytes by which the process grew during the call, or None where it cannot tell."""
    try:
        before = _status("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # resets VmHWM, the peak of VmRSS
        call()
        return max(0, _status("VmHWM") - before)
    except OSError:
        return None


def _status(field: str) -> int:
    found = re.search(rf"^{field}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.M)
    if not found:
        raise OSError(f"/proc/self/status has no {field}")
    return int(found[1]) * 1024


def saved_bytes(call: Callable[[], object], known: Sequence[Tensor]) -> tuple[int, int]:
    """Bytes that the call saves for backward: in all, and of tensors that are not ``known``."""
    saved: dict[int, int] = {}

    def pack(t: Tensor) -> Tensor:
        storage = t.untyped_storage()
        saved[storage.data_ptr()] = storage.nbytes()
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        call()
    ours = {t.untyped_storage().data_ptr() for t in known}
    return sum(saved.values()), sum(n for p, n in saved.items() if p not in ours)
