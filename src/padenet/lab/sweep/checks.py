"""What is refused before a sweep does any work."""

from collections.abc import Iterable
from pathlib import Path

from padenet.lab.data import check_there
from padenet.lab.records.config import Config
from padenet.lab.records.directory import RunDirectory
from padenet.lab.records.files.disk import writing
from padenet.lab.sweep.status import Status


def check_directories(configs: Iterable[Config], out: str | Path) -> None:
    """Refuse, before any work, an ``out`` that cannot be, or that holds runs of other settings."""
    for path in (Path(out), *Path(out).parents):
        if path.exists() and not path.is_dir():
            raise NotADirectoryError(
                f"{out} cannot be a directory: {path} is a file. Name another one."
            )
    for config in configs:
        directory = RunDirectory(Path(out) / config.name)
        directory.check_whole()
        directory.check(config)


def check_work(statuses: Iterable[Status], out: str | Path, data_dir: str | None) -> None:
    """Refuse, before any work, what would fail every run in the same way."""
    with writing(Path(out)):
        Path(out).mkdir(parents=True, exist_ok=True)
    wanted = dict.fromkeys(s.config.dataset for s in statuses if s.result is None)
    absent = []
    for name in wanted:
        try:
            check_there(name, data_dir)
        except FileNotFoundError as error:
            absent.append(error)
    if absent and len(absent) == len(wanted):
        raise absent[0]
