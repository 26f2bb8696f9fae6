"""The progress of a run: a bar on a terminal, otherwise one line per epoch."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from padenet.core import require

if TYPE_CHECKING:
    from padenet.lab.run.run import Progress


@contextmanager
def show(name: str, *, quiet: bool = False) -> "Iterator[Any]":
    """A function to call with each ``Progress`` of a run."""
    if quiet:
        yield lambda progress: None
    elif sys.stdout.isatty():
        with _bar(name) as watch:
            yield watch
    else:
        yield _Lines(name)


class _Lines:
    def __init__(self, name: str):
        self.name = name

    def __call__(self, progress: "Progress") -> None:
        if progress.metrics is not None:
            print(f"{self.name}  {describe(progress)}", flush=True)


def describe(progress: "Progress") -> str:
    """One epoch in words."""
    m = progress.metrics or {}
    parts = [f"epoch {progress.epoch}/{progress.epochs}"]
    for key in ("train_loss", "test_loss"):
        if key in m:
            value = "not finite" if m[key] is None else f"{m[key]:.4f}"
            parts.append(f"{key.replace('_', ' ')} {value}")
    if m:
        parts.append(f"test accuracy {m['test_accuracy']:.2f} %")
    if progress.epoch and progress.images_per_second:
        parts.append(f"{progress.images_per_second:,.0f} images/s")
    return "  ".join(parts)


@contextmanager
def _bar(name: str) -> "Iterator[Any]":
    bars = require("rich.progress", "train")
    columns = (
        bars.TextColumn("{task.description}"),
        bars.BarColumn(bar_width=10),
        bars.TimeRemainingColumn(),
        bars.TextColumn("{task.fields[text]}"),
    )
    with bars.Progress(*columns) as progress_bar:
        task = progress_bar.add_task(name, total=None, text="")

        def watch(progress: "Progress") -> None:
            total = progress.epochs * progress.steps
            done = max(0, progress.epoch - 1) * progress.steps + progress.step
            fields: dict[str, Any] = {"total": total, "completed": done if progress.epoch else 0}
            if progress.metrics is not None:
                loss, right = (progress.metrics[k] for k in ("test_loss", "test_accuracy"))
                lost = "not finite" if loss is None else f"{loss:.3f}"
                text = f"{progress.epoch}/{progress.epochs}  loss {lost}  {right:.2f} %"
                speed = f"  {progress.images_per_second:,.0f}/s" if progress.epoch else ""
                fields["text"] = text + speed
            progress_bar.update(task, **fields)

        yield watch
