"""A new report replaces the one before it, and nothing else in the directory."""

import os
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from padenet.lab.records.files.disk import write, writing

LIST = "files.txt"  # of the report's files, so that the next report knows them from the user's
MADE = re.compile(r"(tables|figures)/[^/\\]+\.(md|tex|csv|png|pdf)")
PREFIX, SUFFIX = ".report-", ".part"


@contextmanager
def publishing(out: Path) -> Iterator[Path]:
    """A directory to write the report to; at the end its files move to ``out``.

    Until then the report before is as it was. Its files go if the new one does not have them;
    others stay.
    """
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        for left in out.glob(f"{PREFIX}*{SUFFIX}"):  # by a process that was killed
            shutil.rmtree(left)
        with TemporaryDirectory(SUFFIX, PREFIX, out) as made:
            yield Path(made)
            _move(Path(made), out)


def _move(made: Path, out: Path) -> None:
    for folder in (p for p in made.iterdir() if p.is_dir()):
        with writing(out / folder.name):
            (out / folder.name).mkdir(exist_ok=True)
    new = {p.relative_to(made).as_posix() for p in made.rglob("*") if p.is_file()}
    old = _listed(out / LIST)
    _write_list(out / LIST, old | new)  # killed from here on, no file of ours is taken for another
    for name in old - new:
        with writing(out / name):
            (out / name).unlink(missing_ok=True)
    for name in sorted(new, key=lambda name: ("/" not in name, name)):  # what report.md shows first
        with writing(out / name):
            os.replace(made / name, out / name)
    _write_list(out / LIST, new)


def _listed(path: Path) -> set[str]:
    """The tables and figures that are listed: nothing else is ever deleted."""
    if not path.exists():
        return set()
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return {line for line in lines if MADE.fullmatch(line)}


def _write_list(path: Path, names: Iterable[str]) -> None:
    write(path, "".join(f"{name}\n" for name in sorted(names)))
