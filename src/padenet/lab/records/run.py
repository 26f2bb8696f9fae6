"""A run as recorded."""

from dataclasses import dataclass, field
from typing import Any

from padenet.lab.records.config import Config

Metrics = dict[str, Any]
"""A line of metrics.jsonl."""


@dataclass(frozen=True)
class Run:
    """A run as recorded: ``result`` is None as long as it is not finished.

    ``failure`` says why one that is not finished has stopped, where that is known; ``pruning`` is
    the text of pruning.json, empty for a whole net; ``place`` is where it was read.
    """

    config: Config
    metrics: list[Metrics]
    result: dict[str, Any] | None
    failure: str = ""
    pruning: str = ""
    place: str = field(default="", compare=False)
