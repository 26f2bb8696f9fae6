"""How long the rest of a sweep takes: from the epochs there are, or from a few steps."""

import time
from collections.abc import Iterable, Iterator
from itertools import islice
from statistics import mean, median

import torch

from padenet.lab.records.config import UNITS, Config
from padenet.lab.run.device import find_device, switches
from padenet.lab.run.execution import Execution
from padenet.lab.run.learning.learner import Learner
from padenet.lab.run.ranks import Ranks
from padenet.lab.run.run import load_once
from padenet.lab.sweep.status import Status

STEPS = 5  # timed, after one that warms up


def time_left(
    statuses: Iterable[Status], jobs: int, timed: dict[Config, float] | None = None
) -> float | None:
    """Seconds until all runs have a result, ``jobs`` at a time. None if nothing is known.

    ``timed`` has the seconds of an epoch for runs that are like none of those begun.
    """
    statuses, timed = list(statuses), timed or {}
    left = []
    for status in statuses:
        if status.result is None:
            pace = timed.get(status.config) or pace_of(status.config, statuses)
            if pace is None:
                return None
            left.append(pace * (status.config.epochs - status.epoch))
    return max([sum(left) / jobs, *left])


def pace_of(config: Config, statuses: Iterable[Status], like: int = 0) -> float | None:
    """Seconds of an epoch in the runs that are most ``like`` this one; 3 is the same kind."""
    known = [s for s in statuses if s.epoch_seconds is not None]
    for depth in range(3, like - 1, -1):
        kind = _kind(config)[:depth]
        paces = [s.epoch_seconds for s in known if _kind(s.config)[:depth] == kind]
        if paces:
            return mean(p for p in paces if p is not None)
    return None


def _kind(config: Config) -> tuple[str, str, str]:
    return config.dataset, config.net, config.activation


def time_runs(statuses: Iterable[Status], execution: Execution) -> dict[Config, float]:
    """Seconds of an epoch for every run that no run with the same data set and net tells about.

    Timed for each data set and net, with a unit and with another activation.
    """
    statuses = list(statuses)
    timed: dict[tuple[str, str, bool], float] = {}
    found = {}
    for config in (s.config for s in statuses if s.result is None):
        if pace_of(config, statuses, like=2) is None:
            kind = config.dataset, config.net, config.activation in UNITS
            if kind not in timed:
                timed[kind] = time_epoch(config, execution)
            found[config] = timed[kind]
    return found


def time_epoch(config: Config, execution: Execution) -> float:
    """Seconds of an epoch, training and test, from a few steps of each."""
    device = find_device(execution.device, config.precision, Ranks())
    data = load_once(config.dataset, execution.data_dir)
    with switches(config.precision, execution.deterministic):
        learner = Learner(
            config,
            data,
            device,
            graph=execution.graph,
            compile=execution.compile,
            workers=execution.workers,
        )
        train, test = (_time_step(s, device) for s in (learner.train(1), learner.test()))
    return train * len(learner.train_batches) + test * len(learner.test_batches)


def _time_step(steps: Iterator[None], device: torch.device) -> float:
    spans = []
    start = time.perf_counter()
    for _ in islice(steps, 1 + STEPS):
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        spans.append(time.perf_counter() - start)
        start = time.perf_counter()
    return median(spans[1:] or spans)
