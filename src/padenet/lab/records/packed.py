"""Runs packed into one file, a line each, and recorded runs read from wherever they are."""

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO, Any

from padenet.lab.records.config import Config
from padenet.lab.records.directory import RunDirectory
from padenet.lab.records.expected import (
    expect,
    expect_line,
    expect_pruning,
    expect_result,
    expect_run,
)
from padenet.lab.records.files.disk import write
from padenet.lab.records.files.json import read_lines
from padenet.lab.records.run import Run

LONGEST = 2**28  # bytes of a packed run; 400 epochs of 100 layers are 10 MB
DENSEST = 200  # times that runs shrink when they are packed; those in results/ by 9 at most
ALWAYS = 2**26  # bytes that any packed file may hold


def read_runs(source: str | Path) -> list[Run]:
    """All runs under a directory, at any depth, or in a packed file; sorted by name."""
    source = Path(source)
    if source.is_dir():
        runs = [RunDirectory(p.parent).read() for p in source.rglob("config.json")]
    elif source.exists():
        try:
            found = list(read_lines(_unzip(source), source, _unpacked))
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(
                f"{source} is not a whole file of packed runs ({error}). Put back a copy."
            ) from error
        runs = [replace(run, place=str(source)) for run in found]
    else:
        raise FileNotFoundError(
            f"{source} is not there. Name a directory of runs or a packed file."
        )
    if not runs:
        why = "no config.json under it" if source.is_dir() else "the file is empty"
        raise ValueError(f"{source} holds no runs: {why}.")
    return sorted(runs, key=lambda run: run.config.name)


def _unzip(source: Path) -> Iterator[bytes]:
    """The lines of a packed file, one at a time in memory, as long as it may be one of runs."""
    most, read = max(ALWAYS, DENSEST * source.stat().st_size), 0
    with gzip.open(source) as file:
        while line := file.readline(min(LONGEST, most - read) + 1):
            read += len(line)
            if len(line) > LONGEST or read > most:
                raise ValueError(f"over {read / 1e6:,.0f} MB, more than packed runs hold")
            yield line


def _unpacked(found: Any) -> Run:
    record = expect(found, ("config", "metrics", "result"))
    metrics, result = record["metrics"], record["result"]
    if not isinstance(metrics, list):
        raise ValueError(f"metrics is a {type(metrics).__name__}, not a list")
    if result is not None:
        expect_result(result)
    texts = {name: record.get(name, "") for name in ("failure", "pruning")}
    for name, text in texts.items():
        if not isinstance(text, str):
            raise ValueError(f"{name} is {text!r}, not a text")
    if texts["pruning"]:
        expect_pruning(json.loads(texts["pruning"]))
    config = Config.from_dict(expect(record["config"]))
    metrics = [expect_line(line) for line in metrics]
    expect_run(config, metrics, result)
    return Run(config, metrics, result, **texts)


def pack(runs: Iterable[Run], path: str | Path) -> None:
    """Write runs into one file, without checkpoints; the same runs give the same bytes."""
    lines = []
    for run in runs:
        record = asdict(run)
        del record["place"]
        for name in ("failure", "pruning"):
            if not record[name]:
                del record[name]
        lines.append(json.dumps(record))

    def content(file: IO[bytes]) -> None:
        with gzip.GzipFile(fileobj=file, mode="wb", mtime=0, filename="") as packed:
            packed.write("".join(f"{line}\n" for line in lines).encode())

    write(Path(path), content)
