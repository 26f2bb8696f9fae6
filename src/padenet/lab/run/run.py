"""One run as one idempotent function: a record and a directory in, the result out.

A finished run is not repeated, and an interrupted one is resumed after its last epoch, to the
same bits as if it had never stopped: on the same machine, with the same number of threads, on a
GPU with ``Execution(deterministic=True)``.
"""

import math
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import torch

from padenet import Pruning
from padenet.core import unknown
from padenet.lab.data import DATASETS, Dataset, Folder, load
from padenet.lab.nets import NETS
from padenet.lab.records.config import Config
from padenet.lab.records.directory import RunDirectory
from padenet.lab.records.run import Metrics
from padenet.lab.run.device import find_device, switches
from padenet.lab.run.execution import Execution
from padenet.lab.run.learning.learner import Learner
from padenet.lab.run.machine import describe_machine
from padenet.lab.run.ranks import Ranks
from padenet.lab.run.user_code import import_modules
from padenet.torch import ACTIVATIONS

WRITE_EVERY = 1.0  # seconds between checkpoints, at least: epochs may be shorter
COMPILERS = ("torch._dynamo", "torch._inductor")
QUICK_WRITE = 0.02  # seconds; slower ones come less often in proportion, a fiftieth of the time


@dataclass(frozen=True)
class Progress:
    """Where a run stands: ``metrics`` comes with the end of an epoch."""

    epoch: int
    step: int
    steps: int
    epochs: int
    images_per_second: float
    metrics: Metrics | None = None


def train(
    config: Config,
    path: str | Path,
    execution: Execution | None = None,
    *,
    ranks: Ranks | None = None,
    watch: Callable[[Progress], None] = lambda progress: None,
) -> dict[str, Any] | None:
    """The result of the run, computed unless ``path`` has it; None if the deadline came first.

    A ``pruning.json`` in ``path`` says which filters the net starts without.
    """
    for progress in steps(config, path, execution, ranks=ranks):
        watch(progress)
    (ranks or Ranks()).wait()  # for the process that writes
    return RunDirectory(path).result()


def steps(
    config: Config,
    path: str | Path,
    execution: Execution | None = None,
    *,
    ranks: Ranks | None = None,
) -> Generator[Progress, None, None]:
    """``train`` in steps of one batch. The caller may do other things between them."""
    execution, ranks = execution or Execution(), ranks or Ranks()
    import_modules(execution.modules)
    check_names(config)
    directory = RunDirectory(path)
    with ExitStack() as stack:
        if ranks.leads:
            directory.check(config)
            if directory.result() is None:  # a finished run may lie where no lock can be
                stack.enter_context(directory.locked())
                directory.claim(config)
        ranks.wait()
        if directory.result() is not None:
            return
        ranks.wait()  # the first to finish must not write a result that another still looks for
        if ranks.leads:
            directory.failure_file.unlink(missing_ok=True)
        stack.enter_context(switches(config.precision, execution.deterministic))
        try:
            with _compiler_explained():
                yield from _train(config, directory, execution, ranks)
        except Exception as error:
            if ranks.leads:
                directory.write_failure(error)
            raise


def check_names(config: Config) -> None:
    """Refuse a data set, net or activation that does not exist."""
    for kind, name, known in (
        ("data set", config.dataset, DATASETS),
        ("net", config.net, NETS),
        ("activation", config.activation, ACTIVATIONS),
    ):
        if name not in known:
            raise unknown(kind, name, known)


def _train(
    config: Config, directory: RunDirectory, execution: Execution, ranks: Ranks
) -> Iterator[Progress]:
    device = find_device(execution.device, config.precision, ranks)
    data = load_once(config.dataset, execution.data_dir)
    learner = Learner(
        config,
        data,
        device,
        ranks,
        pruning=read_pruning(directory),
        graph=execution.graph,
        compile=execution.compile,
        workers=execution.workers,
    )
    top5 = len(data.classes) > 10
    per_epoch, image_count = len(learner.train_batches), config.batch_size

    lines: list[Metrics] = []
    checkpoint = directory.checkpoint()
    if checkpoint is not None:
        _restore(learner, checkpoint, directory, execution)
        lines = directory.metrics()[: checkpoint["epoch"] + 1]
        if [line["epoch"] for line in lines] != list(range(checkpoint["epoch"] + 1)):
            raise OSError(
                f"{directory.metrics_file} lacks epochs that checkpoint.pt has. Put back a copy, "
                "or delete both to start the run again."
            )
    next_write = time.monotonic() + WRITE_EVERY
    reason = _not_finite(lines[-1]) if lines else ""
    for epoch in range(len(lines), config.epochs + 1):
        if reason:
            break
        start = time.monotonic()
        line: Metrics = {"epoch": epoch}
        whole = Progress(epoch, per_epoch, per_epoch, config.epochs, 0.0)
        if epoch:
            for step, _ in enumerate(learner.train(epoch), 1):
                speed = step * image_count / max(time.monotonic() - start, 1e-9)
                yield replace(whole, step=step, images_per_second=speed)
            for _ in learner.settle():
                yield whole
            line |= {"lr": learner.rate()} | learner.means("train")
        for _ in chain(learner.test(), learner.settle()):
            yield whole
        line |= learner.means("test", top5=top5)
        line["seconds"] = round(time.monotonic() - start, 4)
        reason = _not_finite(line)
        lines.append({k: _finite(v) for k, v in line.items()} | learner.coefficients())
        last = bool(reason) or epoch == config.epochs
        late = time.time() > execution.deadline
        if ranks.leads and (last or late or time.monotonic() >= next_write):
            begin = time.monotonic()
            directory.write_metrics(lines)
            state = learner.state()
            directory.write_checkpoint({"epoch": epoch, "compile": execution.compile, **state})
            end = time.monotonic()
            next_write = end + WRITE_EVERY * max(1.0, (end - begin) / QUICK_WRITE)
        speed = per_epoch * image_count / max(line["seconds"], 1e-9)
        yield replace(whole, images_per_second=speed, metrics=lines[-1])
        # The clock of any process ends all of them.
        if not last and ranks.total(torch.tensor(float(late), device=device)).item():
            return
    if ranks.leads:
        directory.write_result(summarize(lines, reason, learner, execution))


def _restore(
    learner: Learner, checkpoint: dict[str, Any], directory: RunDirectory, execution: Execution
) -> None:
    if checkpoint.get("compile", False) != execution.compile:
        begun, now = ("with", "without") if not execution.compile else ("without", "with")
        raise ValueError(
            f"the run in {directory.path} was begun {begun} --compile and would be resumed {now}, "
            "with other roundings. Resume it as it was begun, or choose another directory."
        )
    try:
        learner.restore(checkpoint)
    except (AttributeError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise OSError(
            f"{directory.checkpoint_file} does not fit the run ({str(error).splitlines()[0]}). "
            "Delete it to start the run again, or put back a copy."
        ) from error


@contextmanager
def _compiler_explained() -> Iterator[None]:
    """What torch's compiler says in many lines as one, and what to do."""
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith(COMPILERS):
            raise
        said = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
        raise ValueError(
            f"torch.compile cannot make code here ({type(error).__name__}: {said[:300]}). Leave "
            "out --compile, or install what it needs: a C++ compiler such as g++, on a GPU also "
            "Triton."
        ) from error


def summarize(
    lines: list[Metrics], reason: str, learner: Learner, execution: Execution
) -> dict[str, Any]:
    """The result of a run from its metrics. A run whose loss was not finite has diverged."""
    seconds = sum(line["seconds"] for line in lines)
    images = (len(lines) - 1) * len(learner.train_batches) * learner.config.batch_size
    last, pruning = lines[-1], learner.pruning
    return {
        "status": "diverged" if reason else "done",
        "reason": reason,
        "epochs": last["epoch"],
        "test_accuracy": last["test_accuracy"],
        "best_accuracy": max(line["test_accuracy"] for line in lines),
        "test_loss": last["test_loss"],
        "train_loss": last.get("train_loss"),
        "seconds": round(seconds, 3),
        "images_per_second": round(images / seconds, 1),
        "far_output": _finite(learner.far_output()),
        "parameters": sum(p.numel() for p in learner.net.parameters()),
        "machine": describe_machine(learner.device)
        | {"processes": learner.ranks.world, "compile": execution.compile},
        **({"test_top5": last["test_top5"]} if "test_top5" in last else {}),
        **({"pruning": pruning.summary()} if pruning is not None else {}),
    }


def read_pruning(directory: RunDirectory) -> Pruning | None:
    """Which filters the net of a run starts without; None is a whole net."""
    file = directory.pruning_file
    return Pruning.load(file) if file.exists() else None


@lru_cache(maxsize=4)
def load_once(name: str, data_dir: str | None) -> Dataset | Folder:
    return load(name, data_dir)


def _not_finite(line: Metrics) -> str:
    """Which loss is not, of an epoch as measured or as recorded."""
    for name in ("train_loss", "test_loss"):
        if name in line and _finite(line[name]) is None:
            return f"{name} is not finite in epoch {line['epoch']}"
    return ""


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
