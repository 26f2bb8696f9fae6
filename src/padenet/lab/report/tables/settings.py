"""The table of settings: with what the runs were trained."""

from collections import Counter
from dataclasses import asdict
from typing import Any

from padenet.lab.report.cells import Cell, Key
from padenet.lab.report.names import dataset_title, title
from padenet.lab.report.tables.table import Entry, Table, text_columns

IDENTITY = ("dataset", "net", "activation", "seed", "label")


def settings_tables(cells: list[Cell]) -> list[Table]:
    return [settings_table(cells)]


def settings_table(cells: list[Cell]) -> Table:
    """A column a data set and net: the value most activations have, and those that differ."""
    places = list(dict.fromkeys(c.key[:2] for c in cells))
    settings = {c.key: asdict(c.runs[0].config) for c in cells}
    rows = []
    for name in (n for n in next(iter(settings.values())) if n not in IDENTITY):
        line = [_common(name, {k: s for k, s in settings.items() if k[:2] == p}) for p in places]
        if any(entry != Entry("–") for entry in line):
            rows.append([Entry(name), *line])
    columns = text_columns("setting", *(f"{dataset_title(d)}, {title(n)}" for d, n in places))
    caption = "The settings of the runs, as in their configs; “–” is off."
    records = [{**key._asdict(), **s, "seed": ""} for key, s in settings.items()]
    return Table("settings", "Settings", caption, columns, rows, records)


def _common(name: str, settings: dict[Key, dict[str, Any]]) -> Entry:
    values = {key.row: _show(s[name]) for key, s in settings.items()}
    usual = Counter(values.values()).most_common(1)[0][0]
    odd: dict[str, list[str]] = {}
    for row, value in values.items():
        if value != usual:
            odd.setdefault(value, []).append(row)
    note = "; ".join(f"{', '.join(rows)}: {value}" for value, rows in odd.items())
    return Entry(usual, note=note)


def _show(value: Any) -> str:
    if value is None or value == "none":
        return "–"
    return f"{value:g}" if isinstance(value, float) else str(value)
