"""List, fetch and verify data sets.

    padenet data list
    padenet data fetch mnist
    padenet data verify mnist --data-dir ~/data

Without --data-dir the directory is that of the environment variable PADENET_DATA, else
~/.cache/padenet.
"""

import argparse
import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from padenet.core import require

if TYPE_CHECKING:
    from padenet.lab.data import DatasetSpec


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for action, text in (
        ("list", "which sets are known, where they are looked for, and which are there"),
        ("fetch", "download a set from its official source"),
        ("verify", "check a set's files against the published digests"),
    ):
        command = actions.add_parser(action, help=text, description=text)
        if action != "list":
            command.add_argument("name", metavar="NAME", help="such as mnist")
        command.add_argument("--data-dir", metavar="DIR", help="the directory of the data sets")


def run(args: argparse.Namespace) -> int:
    from padenet.lab import data

    if args.action == "list":
        print_list(args.data_dir)
    elif args.action == "fetch":
        with progress() as report:
            folder = data.fetch(args.name, args.data_dir, report=report)
        print(f"{args.name} is in {folder}")
    else:
        copy = data.verify(args.name, args.data_dir)
        print(f"{args.name}: {len(copy.files)} files as published, in {copy.folder}")
    return 0


def print_list(data_dir: str | None) -> None:
    from padenet.lab.data import DATASETS, data_home

    home = data_home(data_dir)
    print(f"data directory: {home}")
    for name, spec in DATASETS.items():
        state, where = look(name, spec, home)
        print(f"{name:<14} {state:<11} {where}")


def look(name: str, spec: "DatasetSpec", home: Path) -> tuple[str, str]:
    """Whether a set is there, and where it lies or was looked for."""
    from padenet.lab.data.local import find

    if spec.source is not None:
        if copy := find(spec.source, home):
            if copy.missing:
                return "incomplete", f"{copy.folder} has no {', '.join(copy.missing)}"
            return "present", str(copy.folder)
        folders = ", ".join(layout.folder for layout in spec.source.layouts)
        return "absent", f"looked in {folders}; padenet data fetch {name}"
    if spec.find is None:
        return "present", "in the package" if spec.packaged else "made by a function"
    try:
        return "present", str(spec.find(home))
    except FileNotFoundError as error:
        return "absent", str(error).removeprefix(f"{name}: ").partition(". ")[0]


@contextmanager
def progress() -> Iterator[Callable[[str, int, int | None], None]]:
    """A bar for each file on a terminal, where rich is installed; else a line every 10 %."""
    if not (sys.stderr.isatty() and importlib.util.find_spec("rich")):
        yield Lines()
        return
    bars, console = require("rich.progress", "train"), require("rich.console", "train")
    columns = (bars.TextColumn("{task.description}"), bars.BarColumn(), bars.DownloadColumn())
    tasks: dict[str, int] = {}
    with bars.Progress(
        *columns, bars.TimeRemainingColumn(), console=console.Console(stderr=True)
    ) as bar:

        def report(file: str, done: int, total: int | None) -> None:
            if file not in tasks:
                tasks[file] = bar.add_task(file, total=total)
            bar.update(tasks[file], completed=done, total=total)

        yield report


class Lines:
    """Progress as lines on stderr: one each 10 %, or each 10 MB where the size is unknown."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}

    def __call__(self, file: str, done: int, total: int | None) -> None:
        step = done * 10 // total if total else done // 10**7
        if step > self._last.get(file, 0):
            of = f" of {total / 1e3:,.0f}" if total else ""
            print(f"{file}: {done / 1e3:,.0f}{of} kB", file=sys.stderr)
        self._last[file] = step
