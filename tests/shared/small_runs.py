"""What tests of many runs share: small runs, their numbers, and the process that trains one."""

import os
import time
from pathlib import Path

import torch

from padenet.lab.records.config import Config
from padenet.lab.records.directory import RunDirectory


def small(activation="relu", **fields):
    """A run of about a second."""
    return Config(activation=activation, **{"epochs": 2, "batch_size": 128, **fields})


def numbers_of(path):
    """All that a run computed, to the bit, without what the clock says."""
    directory = RunDirectory(path)
    lines = directory.metrics()
    for line in lines:
        del line["seconds"]
    state = directory.checkpoint()
    weights = {name: tensor.numpy().tobytes() for name, tensor in state["net"].items()}
    moments = {
        (i, name): torch.as_tensor(value).numpy().tobytes()
        for i, values in state["optimizer"].items()
        for name, value in values.items()
    }
    return lines, state["epoch"], weights, moments


def wait_for(condition, seconds=120):
    """The first true value of ``condition()``."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.02)
    raise TimeoutError(f"not within {seconds} s")


def trainers(path):
    """The processes that hold a file of the run open: those which train it."""
    lock = str(Path(path) / ".lock")
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if any(os.readlink(fd) == lock for fd in (process / "fd").iterdir()):
                found.add(int(process.name))
        except OSError:  # it ended, or is another user's
            continue
    return found


def alive(pid):
    """Whether a process runs; one that waits for its parent to notice its end does not."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:
        return False


def is_free(path):
    """Whether nothing holds the run's lock: a process that ends drops it last of all."""
    import fcntl

    with open(Path(path) / ".lock", "a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True
