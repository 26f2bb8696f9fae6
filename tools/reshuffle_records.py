"""What tools/reshuffle.py records: a net through all its tasks."""

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from padenet.core import replacing

LAST = 5  # tasks at the end whose mean counts
WIDTH = 128


@dataclass(frozen=True)
class Settings:
    """What all runs of a record share."""

    dataset: str = "mnist"
    seeds: int = 5
    tasks: int = 20
    images: int = 1000
    batch_size: int = 50
    width: int = WIDTH
    epochs: int | None = None  # those of EPOCHS unless given
    factor: float = 1.0  # all rates times this


@dataclass(frozen=True)
class Run:
    """A net through all its tasks: accuracy in percent after each, nan from where it diverged."""

    kind: str
    optimizer: str
    lr: float
    epochs: int
    activation: str
    unit: bool
    seed: int
    accuracies: list[float]
    seconds: float
    units: dict[str, Any]  # the coefficients at the end
    held: list[str]  # what the stabiliser did

    @property
    def first(self) -> float:
        return self.accuracies[0]

    @property
    def last(self) -> float:
        return mean(self.accuracies[-LAST:])


def write(path: Path, settings: Settings, machine: dict[str, Any], runs: list[Run]) -> None:
    """The record, whole or not at all: a line for each run. JSON has no nan: null stands for it."""
    record = {"settings": asdict(settings), "machine": machine}
    head = json.dumps(record)[:-1]
    lines = [json.dumps(_without_nan(asdict(run)), allow_nan=False) for run in runs]
    with replacing(path) as temporary:
        temporary.write_text(
            f'{head}, "runs": [\n' + ",\n".join(lines) + "\n]}\n", encoding="utf-8"
        )


def read(path: Path) -> tuple[dict[str, Any], list[Run]]:
    """The record without its runs, and these."""
    record = json.loads(path.read_text(encoding="utf-8"))
    runs = []
    for r in record.pop("runs"):
        accuracies = [math.nan if v is None else v for v in r["accuracies"]]
        runs.append(Run(**{**r, "accuracies": accuracies}))
    return record, runs


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_nan(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_without_nan(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
