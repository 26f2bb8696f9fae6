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
from contextlib import contextmanager, suppress

from padenet.core.extras import require


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
        place = data.verify(args.name, args.data_dir)
        print(f"{args.name}: {len(place.files)} files as published, in {place.folder}")
    return 0


def print_list(data_dir: str | None) -> None:
    from padenet.lab.data import NAMES, SOURCES, data_home
    from padenet.lab.data.folder import imagenet_root
    from padenet.lab.data.places import find

    home = data_home(data_dir)
    rows = {
        "digits": ("present", "in the package"),
        "imagenet": ("absent", "looked for train and val in imagenet and in the directory itself"),
    }
    for name, source in SOURCES.items():
        folders = ", ".join(layout.folder for layout in source.layouts)
        rows[name] = ("absent", f"looked in {folders}; padenet data fetch {name}")
        if place := find(source, home):
            rows[name] = ("present", str(place.folder))
            if place.missing:
                missing = ", ".join(place.missing)
                rows[name] = ("incomplete", f"{place.folder} has no {missing}")
    with suppress(FileNotFoundError):
        rows["imagenet"] = ("present", str(imagenet_root(home)))
    print(f"data directory: {home}")
    for name in NAMES:
        print(f"{name:<14} {rows[name][0]:<11} {rows[name][1]}")


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
