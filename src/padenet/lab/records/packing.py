"""Records on the move: runs of several directories and packed files as one, and back."""

import json
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from padenet.lab.records.config import Config
from padenet.lab.records.directory import RunDirectory
from padenet.lab.records.files.disk import write, writing
from padenet.lab.records.packed import pack, read_runs
from padenet.lab.records.run import Run


def read_sources(sources: Iterable[str | Path], *, last: bool = False) -> list[Run]:
    """The runs of directories and packed files, each once, sorted by name; with ``last`` of
    finished ones the last epoch alone.

    Of the same run the finished record is kept or, of two unfinished ones, the longer. Two
    finished records that differ are refused, and so are two configs under one name and what a run
    left behind without a config.
    """
    kept: dict[str, Run] = {}
    for source in sources:
        _refuse_nameless(Path(source))
        for run in read_runs(source):
            if last and run.result is not None:
                run = replace(run, metrics=run.metrics[-1:])
            name = run.config.name
            kept[name] = _better(kept[name], run) if name in kept else run
    return [kept[name] for name in sorted(kept)]


def pack_runs(sources: Iterable[str | Path], path: str | Path, *, last: bool = False) -> list[Run]:
    """Merge the runs of all sources into one packed file, and return them.

    A file that already exists is one of the sources: packing never loses a record.
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a directory. Name a file, e.g. runs.jsonl.gz.")
    runs = read_sources([*([path] if path.exists() else []), *sources], last=last)
    with writing(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    pack(runs, path)
    return runs


def unpack_runs(source: str | Path, folder: str | Path) -> list[Run]:
    """Write every run as a directory of its name under ``folder``.

    A run that already exists must be the same one: it is kept if it is finished or longer, and
    refused if both are finished and differ. One that has a checkpoint gives way to a finished
    record only: it can be resumed, which a packed one cannot.
    """
    runs = read_sources([source])
    chosen = []
    for run in runs:
        directory = RunDirectory(Path(folder) / run.config.name)
        if not directory.config_file.exists():
            directory.check(run.config)
            chosen.append((run, directory))
            continue
        better = _better(directory.read(), run) is run
        if better and (run.result is not None or not directory.checkpoint_file.exists()):
            chosen.append((run, directory))
    for run, directory in chosen:
        _replace(directory, run)
    return runs


def _refuse_nameless(source: Path) -> None:
    """No run may be left out in silence because its config.json is gone."""
    for folder in sorted({path.parent for path in source.rglob("*")}):
        directory = RunDirectory(folder)
        if not directory.config_file.exists():
            directory.check(Config())  # of whichever run: it looks at no value before the file


def _replace(directory: RunDirectory, run: Run) -> None:
    """Make the directory the record's, with nothing of another in it."""
    with directory.locked() if directory.path.exists() else nullcontext():
        directory.claim(run.config)
        for file in (directory.checkpoint_file, directory.failure_file):
            file.unlink(missing_ok=True)
        if run.pruning:
            write(directory.pruning_file, run.pruning)
        directory.write_metrics(run.metrics)
        if run.result is not None:
            directory.write_result(run.result)
        elif run.failure:
            directory.write_failure(run.failure)


def _better(old: Run, new: Run) -> Run:
    """The record to keep of two under one name; the old one if they are the same."""
    name = old.config.name
    places = f"{old.place} and {new.place}" if old.place != new.place else f"{old.place}, twice"
    if old.config != new.config:
        raise ValueError(f"run {name} has two configs, in {places}. Give one of them a label.")
    if old.result is None or new.result is None:
        return max(old, new, key=lambda run: (run.result is not None, len(run.metrics)))
    if _text(old) != _text(new):
        raise ValueError(
            f"run {name} is finished with different records in {places}. Leave out or delete one "
            "of them."
        )
    return old


def _text(run: Run) -> str:
    """For comparison: NaN, which some JSON holds, is not equal to itself."""
    return json.dumps([run.result, run.metrics], sort_keys=True)
