"""Where numbers come from: the machine, the versions and the commit."""

import os
import platform
import subprocess
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

import padenet


def describe_machine(device: torch.device) -> dict[str, Any]:
    on_gpu = device.type == "cuda"
    return {
        "device": torch.cuda.get_device_name(device) if on_gpu else _processor(),
        "threads": torch.get_num_threads(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "padenet": padenet.__version__,
        "commit": _commit(),
    }


def count_cores() -> int:
    """Those that this process may use, however many threads torch was told to."""
    mine = getattr(os, "sched_getaffinity", None)
    return len(mine(0)) if mine else os.cpu_count() or 1


@lru_cache
def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


@lru_cache
def _commit() -> str:
    """Of the source tree padenet runs from, with a + if files differ; empty if installed.

    PADENET_COMMIT says it for a tree that was copied without its history.
    """
    if given := os.environ.get("PADENET_COMMIT"):
        return given
    root = Path(__file__).resolve().parents[4]
    if not (root / ".git").exists():
        return ""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(root), *arguments]
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "src", "native")
        return git("rev-parse", "--short=10", "HEAD") + ("+" if changed else "")
    except OSError:  # no git here
        return ""
