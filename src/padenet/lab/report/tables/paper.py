"""The paper's own numbers, from ``paper.json``."""

import json
from functools import cache
from importlib import resources
from typing import Any, NamedTuple


class PaperCell(NamedTuple):
    mean: float
    std: float | None
    best: float | None


@cache
def _numbers() -> dict[str, Any]:
    file = resources.files("padenet.lab.report.tables") / "paper.json"
    numbers: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return numbers


def paper_cell(
    dataset: str, net: str, activation: str, measure: str = "test_accuracy"
) -> PaperCell | None:
    """What the paper prints for it in Table 2, Table 3 or the ImageNet table; None if nothing."""
    cells = _numbers().get(measure, {}).get(dataset, {}).get(net, {})
    found = cells.get(activation)
    return PaperCell(*found) if found else None


def paper_wins(baseline: str) -> tuple[int, int] | None:
    """How often PAU or RPAU was at least as good as the baseline, and how often worse."""
    found = _numbers()["at_least_and_below"].get(baseline)
    return (found[0], found[1]) if found else None
