"""Many runs at once on one machine: in processes on a CPU, in turns on a GPU.

A run does not feel the others beside it: its numbers are those of the run alone, with as many
threads, and on a GPU with ``Execution(deterministic=True)``. One that fails is recorded, and the
rest carry on. What is interrupted, by the deadline, Ctrl-C or a kill, resumes from its last
checkpoint the next time.
"""

import multiprocessing
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from signal import SIG_IGN, SIGINT, signal

import torch

from padenet.lab.records.config import Config
from padenet.lab.records.directory import RunDirectory
from padenet.lab.records.files.lock import InUse
from padenet.lab.run.device import find_device
from padenet.lab.run.execution import Execution
from padenet.lab.run.ranks import Ranks
from padenet.lab.run.run import train
from padenet.lab.sweep.outcome import OnEnd, Outcome, say_nothing
from padenet.lab.sweep.turns import in_turns

TRIES = 3  # starts of a run whose process dies


def run_all(
    configs: Iterable[Config],
    out: str | Path,
    execution: Execution,
    jobs: int = 1,
    *,
    threads: int | None = None,
    report: OnEnd = say_nothing,
) -> None:
    """Train every run in ``out``/its name, ``jobs`` at a time, in the way that suits the device.

    Args:
        threads: CPU threads of each process; by default the cores are shared out.
        report: Called as each run ends; not for runs that the deadline kept from starting.
    """
    configs = list(configs)
    check_jobs(jobs)
    jobs = min(jobs, len(configs))
    on_gpu = find_device(execution.device, "fp32", Ranks()).type == "cuda"
    if on_gpu or jobs <= 1:
        if threads:
            torch.set_num_threads(threads)
        in_turns(configs, out, execution, jobs, report=report)
    else:
        in_processes(configs, out, execution, jobs, threads=threads, report=report)


def check_jobs(jobs: int) -> None:
    if jobs < 1:
        raise ValueError(f"jobs={jobs}: at least one run at a time.")


def attempt(
    config: Config, out: str | Path, execution: Execution, threads: int | None = None
) -> Outcome:
    """One run from start to end. An exception is an outcome too, so that others go on."""
    if time.time() >= execution.deadline:
        return Outcome(config, "unfinished")
    if threads:
        torch.set_num_threads(threads)
    path = Path(out) / config.name
    try:
        return Outcome.of(config, train(config, path, execution))
    except InUse as error:
        return Outcome(config, "unfinished", str(error))
    except Exception as error:
        return Outcome.failed(config, error)


def record_death(config: Config, out: str | Path, reason: str) -> Outcome:
    """The end of a run that could not record it, because its process died."""
    error = ChildProcessError(reason)
    directory = RunDirectory(Path(out) / config.name)
    with suppress(OSError, ValueError), directory.locked():  # a full disk, another run's directory
        directory.claim(config)  # it may have died before it did
        directory.write_failure(error)
    return Outcome.failed(config, error)


def taken_up(config: Config, out: str | Path, since: float) -> bool:
    """Whether a process began to train the run, or went on with it, after the time ``since``."""
    lock = Path(out) / config.name / ".lock"
    return lock.exists() and lock.stat().st_mtime >= since


def in_processes(
    configs: Iterable[Config],
    out: str | Path,
    execution: Execution,
    jobs: int,
    *,
    threads: int | None = None,
    report: OnEnd = say_nothing,
) -> None:
    """``run_all`` with ``jobs`` processes.

    A process that is killed breaks the pool, and with it the runs of the others: they are started
    again in a new one. The last start of a run is alone in its pool, so that none is called failed
    for what another did.
    """
    threads = threads or max(1, torch.get_num_threads() // jobs)
    work = partial(attempt, out=out, execution=execution, threads=threads)
    waiting, alone = deque(configs), deque[Config]()
    broken: Counter[str] = Counter()
    while (waiting or alone) and time.time() < execution.deadline:
        queue, most = (waiting, jobs) if waiting else (deque([alone.popleft()]), 1)
        with _pool(most) as pool:
            lost = _work_off(queue, pool, work, most, execution.deadline, report)
        for config in lost:
            broken[config.name] += 1
            if broken[config.name] == TRIES:
                reason = f"its process died {TRIES} times. Is there enough memory?"
                report(record_death(config, out, reason))
            elif broken[config.name] == TRIES - 1:
                alone.append(config)
            else:
                waiting.appendleft(config)


def _work_off(
    queue: deque[Config],
    pool: ProcessPoolExecutor,
    work: Callable[[Config], Outcome],
    most: int,
    deadline: float,
    report: OnEnd,
) -> list[Config]:
    """Until the queue is empty, the deadline comes or the pool breaks: the runs lost with it."""
    flying: dict[Future[Outcome], Config] = {}
    lost: list[Config] = []
    whole = True
    while True:
        # As many as run at once, no more: those that still wait cannot be lost.
        while whole and queue and len(flying) < most and time.time() < deadline:
            try:
                flying[pool.submit(work, queue[0])] = queue[0]
            except BrokenProcessPool:
                whole = False
            else:
                queue.popleft()
        if not flying:
            return lost
        for future in wait(flying, return_when=FIRST_COMPLETED).done:
            config = flying.pop(future)
            if isinstance(future.exception(), BrokenProcessPool):
                whole = False
                lost.append(config)
            else:
                report(future.result())


@contextmanager
def _pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that end with the block, and with this process, however it ends.

    They hold the reading end of a pipe whose writing end is here alone: it closes with this
    process, killed or not.
    """
    context = multiprocessing.get_context("spawn")
    reader, writer = context.Pipe(duplex=False)
    with reader, writer:
        pool = ProcessPoolExecutor(jobs, context, initializer=_start_worker, initargs=(reader,))
        try:
            yield pool
        except BaseException:
            writer.close()
            raise
        finally:
            pool.shutdown(cancel_futures=True)


def _start_worker(alive: Connection) -> None:
    signal(SIGINT, SIG_IGN)  # a terminal sends Ctrl-C to all; the first process ends the others
    threading.Thread(target=_end_with, args=(alive,), daemon=True).start()


def _end_with(alive: Connection) -> None:
    alive.poll(None)
    os._exit(1)
