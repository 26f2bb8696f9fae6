"""Code of the user: modules and files that register data sets and activations, or define runs."""

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import Any

_IMPORTED: set[str] = set()  # files


def import_modules(names: Iterable[str]) -> None:
    """Import each once in this process: a module by its name, or a file that ends in .py."""
    for name in names:
        if not name.endswith(".py"):
            with _explained(name):
                importlib.import_module(name)
        elif (path := os.path.abspath(name)) not in _IMPORTED:
            if not os.path.isfile(path):
                raise FileNotFoundError(f"{name} is no file. Name a Python file or a module.")
            with _beside(Path(path)), _explained(name):
                _execute(Path(path))
            _IMPORTED.add(path)


def made_by(name: str, function: str) -> Any:
    """What a function of a Python file, executed anew, returns; None without the function."""
    path = Path(name)
    if path.suffix != ".py":
        raise ValueError(f"{name} is no Python file: its name must end in .py.")
    with _beside(path), _explained(name):
        found = getattr(_execute(path), function, None)
        return found() if callable(found) else None


def _execute(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"padenet_recipe_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextmanager
def _beside(path: Path) -> Iterator[None]:
    """Let a file import its neighbours, as Python lets a script."""
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        with suppress(ValueError):  # the file may have changed the list itself
            sys.path.remove(folder)


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """What goes wrong in a user's file, with its name and the line."""
    try:
        yield
    except (Exception, SystemExit) as error:
        own = os.path.abspath(name)
        lines = [f.lineno for f in extract_tb(error.__traceback__) if f.filename == own]
        line = f", line {lines[-1]}" if lines else ""
        raise ValueError(f"{name}{line}: {type(error).__name__}: {error}") from error
