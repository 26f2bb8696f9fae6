"""The runs of a sweep: those of a recipe or of a Python file, and which of them."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from padenet.core import unknown
from padenet.lab.records.config import Config
from padenet.lab.run.user_code import made_by
from padenet.lab.sweep.recipes import RECIPES


def find_runs(recipe: str) -> list[Config]:
    """The runs of a known recipe, or of a Python file that defines ``runs() -> list[Config]``."""
    if recipe in RECIPES:
        return RECIPES[recipe]()
    path = Path(recipe)
    if not path.is_file():
        if path.suffix == ".py" or len(path.parts) > 1:
            raise FileNotFoundError(f"{recipe} is no file. Known recipes: {', '.join(RECIPES)}.")
        raise unknown("recipe", recipe, RECIPES)
    runs = made_by(recipe, "runs")
    if not isinstance(runs, list) or not all(isinstance(r, Config) for r in runs):
        raise ValueError(f"{recipe} must define a function runs() that returns a list of Config.")
    return runs


def choose(
    configs: Iterable[Config], only: str | None = None, fields: dict[str, Any] | None = None
) -> list[Config]:
    """The runs with ``fields`` put in and a name like ``only``; names must be unique."""
    made = [replace(c, **(fields or {})) for c in configs]
    if not made:
        raise ValueError("the recipe has no runs.")
    [(name, times)] = Counter(c.name for c in made).most_common(1)
    if times > 1:
        raise ValueError(f"{name} is there {times} times. Tell runs apart by seed or label.")
    chosen = [c for c in made if only is None or fnmatchcase(c.name, only)]
    if not chosen:
        raise ValueError(f"only={only!r} fits none of {len(made)} runs, such as {name}.")
    return chosen
