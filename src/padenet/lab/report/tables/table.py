"""What a table is, before ``formats`` writes it down."""

from dataclasses import dataclass, field
from typing import Any

MISSING = "–"
DIGITS = 2  # of an accuracy in percent; what is the same in these digits counts as equal
BEST, SECOND = "•", "○"


@dataclass(frozen=True)
class Entry:
    """A cell as shown: ``value`` sorts it, ``mark`` makes it bold, ``note`` says what to know."""

    text: str
    value: float | None = None
    mark: str = ""
    note: str = ""


@dataclass(frozen=True)
class Column:
    title: str
    group: str = ""  # columns with the same group stand under one heading
    numeric: bool = True
    quiet: bool = False  # for comparison only


@dataclass(frozen=True)
class Table:
    name: str
    title: str
    caption: str
    columns: list[Column]
    rows: list[list[Entry]]
    records: list[dict[str, Any]] = field(default_factory=list)  # for CSV, in full precision


def text_columns(*titles: str) -> list[Column]:
    return [Column(t, numeric=False) for t in titles]


def digits(value: float | None) -> str:
    return MISSING if value is None else f"{value:.{DIGITS}f}"


def spread(mean: float | None, std: float | None) -> str:
    return digits(mean) if std is None else f"{digits(mean)} ± {digits(std)}"


def signed(value: float | None) -> str:
    return MISSING if value is None else f"{value:+.{DIGITS}f}".replace("-", "−")


def chance(p: float | None) -> str:
    """A p-value; below 0.001 only that."""
    return MISSING if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


def count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
