"""Several runs in one process that take turns: how a GPU is filled with small nets."""

import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from padenet.lab.records.config import Config
from padenet.lab.records.directory import RunDirectory
from padenet.lab.records.files.lock import InUse
from padenet.lab.run.device import find_device, switches
from padenet.lab.run.execution import Execution
from padenet.lab.run.ranks import Ranks
from padenet.lab.run.run import Progress, steps
from padenet.lab.sweep.outcome import OnEnd, Outcome, say_nothing

Steps = Generator[Progress, None, None]


def in_turns(
    configs: Iterable[Config],
    out: str | Path,
    execution: Execution,
    jobs: int,
    *,
    report: OnEnd = say_nothing,
) -> None:
    """Train every run in ``out``/its name: ``jobs`` of them, a step of each in turn.

    A step only enqueues its work on a GPU, so that the runs, each on a stream of its own, fill it
    together. torch's global switches belong to a precision: runs of another one come afterwards.
    """
    configs = list(configs)
    device = find_device(execution.device, "fp32", Ranks())
    lanes = deque(Lane(device) for _ in range(jobs))
    for precision in dict.fromkeys(c.precision for c in configs):
        group = deque(c for c in configs if c.precision == precision)
        # So that a run which ends puts back what the others need.
        with switches(precision, execution.deterministic):
            _take_turns(group, Path(out), execution, lanes, report)


class Lane:
    """What a run has for itself in its turns: random state and, on a GPU, a stream.

    Lanes outlive runs, because memory that a run has freed is kept for its stream.
    """

    def __init__(self, device: torch.device):
        self.device = device
        self.random = torch.get_rng_state()
        if device.type == "cuda":
            torch.cuda.init()
            self.stream = torch.cuda.Stream(device)
            self.generator = torch.cuda.default_generators[device.index].clone_state()

    @contextmanager
    def taken(self) -> Iterator[None]:
        """A turn."""
        outside = torch.get_rng_state()
        torch.set_rng_state(self.random)
        try:
            if self.device.type == "cuda":
                with torch.cuda.stream(self.stream), self._own_generator():
                    yield
            else:
                yield
        finally:
            self.random = torch.get_rng_state()
            torch.set_rng_state(outside)

    @contextmanager
    def _own_generator(self) -> Iterator[None]:
        """A CUDA graph draws from the state it was captured with: no two runs may share one."""
        default = torch.cuda.default_generators[self.device.index]
        outside = default.graphsafe_get_state()
        default.graphsafe_set_state(self.generator)
        try:
            yield
        finally:
            default.graphsafe_set_state(outside)

    def clear(self) -> None:
        """After a run: give back the memory of its graphs.

        No cycle of references holds a run, except the first of a process, of which torch's own
        first import keeps frames. That one waits for Python's collector, which takes too long here.
        """
        if self.device.type == "cuda":
            torch.cuda.empty_cache()


def _take_turns(
    waiting: deque[Config], out: Path, execution: Execution, lanes: deque[Lane], report: OnEnd
) -> None:
    running: list[tuple[Config, Steps, Lane]] = []
    try:
        while True:
            while waiting and lanes and time.time() < execution.deadline:
                config = waiting.popleft()
                running.append(
                    (config, steps(config, out / config.name, execution), lanes.popleft())
                )
            if not running:
                return
            for turn in list(running):
                outcome = _take_turn(*turn, out)
                if outcome is not None:
                    running.remove(turn)
                    turn[2].clear()
                    lanes.append(turn[2])
                    report(outcome)
    finally:
        for _, run, lane in running:
            with lane.taken():
                run.close()


def _take_turn(config: Config, run: Steps, lane: Lane, out: Path) -> Outcome | None:
    """A step; the outcome after the last."""
    try:
        with lane.taken():
            if next(run, None) is not None:
                return None
        return Outcome.of(config, RunDirectory(out / config.name).result())
    except InUse as error:
        return Outcome(config, "unfinished", str(error))
    except Exception as error:
        return Outcome.failed(config, error)
