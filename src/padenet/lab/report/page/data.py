"""What the page draws and hands out, small enough to be part of it: curves of all runs, units of
some, every table as CSV."""

import math
from typing import Any

from padenet.core import FORMS
from padenet.lab.records.run import Metrics, Run
from padenet.lab.report.cells import Cell, number, rows_of, status
from padenet.lab.report.figures.learned import finite_units, shown_scale
from padenet.lab.report.names import DASHES, dataset_title, group_of, looks, row_title, title
from padenet.lab.report.tables.formats import to_csv
from padenet.lab.report.tables.table import Table

MEASURES = ("test_accuracy", "train_loss", "test_loss")
CURVE_POINTS = 400  # of a run, at most
UNIT_EPOCHS = 50
GROUPS = 8  # of a layer
NUMBERS = 600_000  # coefficients in all, of about 9 characters


def page_data(cells: list[Cell], tables: list[Table]) -> dict[str, Any]:
    curves = [
        {
            "place": f"{c.key.dataset} {c.key.net}",
            "dataset": dataset_title(c.key.dataset),
            "net": title(c.key.net),
            "row": c.key.row,
            "seeds": [_curves(run) for run in c.runs if run.metrics],
        }
        for c in cells
    ]
    rows = [
        {"name": row_title(*row), "group": group_of(row[0]), "look": look}
        for row, look in looks(rows_of(cells)).items()
    ]
    return {
        "rows": rows,
        "dashes": DASHES,
        "curves": curves,
        "units": unit_records(cells),
        "tables": {table.name: to_csv(table) for table in tables},
    }


def short(value: Any) -> float | None:
    """Six digits are more than a screen shows."""
    known = number(value)
    return None if known is None else float(f"{known:.6g}")


def thin(metrics: list[Metrics], most: int) -> list[Metrics]:
    """At most that many epochs at even distances, the first and the last among them."""
    count = min(most, len(metrics))
    return [metrics[round(i * (len(metrics) - 1) / max(1, count - 1))] for i in range(count)]


def _curves(run: Run) -> dict[str, Any]:
    step = math.ceil((run.config.epochs + 1) / CURVE_POINTS)
    kept = [m for m in run.metrics if m["epoch"] % step == 0 or m is run.metrics[-1]]
    lines = {name: [short(m.get(name)) for m in kept] for name in MEASURES}
    return {"status": status(run), "epochs": [m["epoch"] for m in kept], **lines}


def unit_records(cells: list[Cell], budget: int = NUMBERS) -> list[dict[str, Any]]:
    """Units by epoch: of the first seed of every cell, then of more seeds as the budget allows.

    If the first seeds alone are over the budget, they keep fewer epochs.
    """
    runs = [[r for r in c.runs if any(map(finite_units, r.metrics))] for c in cells]
    firsts = [(i, members[0]) for i, members in enumerate(runs) if members]
    size = sum(_size(run, UNIT_EPOCHS) for _, run in firsts)
    epochs = max(2, UNIT_EPOCHS * budget // size) if size > budget else UNIT_EPOCHS
    chosen = firsts
    for rank in range(1, max(map(len, runs), default=0)):
        more = [(i, members[rank]) for i, members in enumerate(runs) if len(members) > rank]
        size += sum(_size(run, epochs) for _, run in more)
        if size > budget:
            break
        chosen = chosen + more
    chosen = sorted(chosen, key=lambda pair: (pair[0], pair[1].config.seed))
    return [_units(cells[i], run, epochs) for i, run in chosen]


def _size(run: Run, epochs: int) -> int:
    """How many numbers the units of a run are on the page."""
    usable = [m for m in run.metrics if finite_units(m)]
    units = usable[0]["units"].values()
    one = sum(len(a) + len(b) for unit in units for a, b in _groups(unit))
    return one * len(thin(usable, epochs))


def _groups(unit: dict[str, Any]) -> list[list[list[float]]]:
    """Pairs (a, b), one per group, of at most GROUPS groups spread over all."""
    if not isinstance(unit["a"][0], list):
        return [[unit["a"], unit["b"]]]
    pairs = list(zip(unit["a"], unit["b"], strict=True))
    return [list(p) for p in pairs[:: math.ceil(len(pairs) / GROUPS)]]


def _units(cell: Cell, run: Run, epochs: int) -> dict[str, Any]:
    usable = [m for m in run.metrics if finite_units(m)]
    kept = thin(usable, epochs)
    names = list(kept[0]["units"])
    layers = []
    for name in names:
        sets = [_groups(m["units"][name]) for m in kept]
        short_sets = [[[list(map(short, c)) for c in pair] for pair in group] for group in sets]
        one = len(short_sets[0]) == 1
        layers.append({"name": name, "epochs": [s[0] if one else s for s in short_sets]})
    key = cell.key
    parts = [dataset_title(key.dataset), title(key.net), key.row, f"seed {run.config.seed}"]
    kind, form = status(run), FORMS[run.config.form]
    return {
        "name": " · ".join(parts) + ("" if kind == "done" else f" ({kind})"),
        "form": {flag: getattr(form, flag) for flag in ("per_term", "around", "constant")},
        "has_poles": form.has_poles,
        "alpha": run.config.alpha if key.activation == "rpau" else 0,
        "scale": shown_scale(run),  # of the band
        "epochs": [m["epoch"] for m in kept],
        "layers": layers,
        "note": _note(run, kept, usable),
    }


def _note(run: Run, kept: list[Metrics], usable: list[Metrics]) -> str:
    note = f"{len(kept)} of {len(usable)} recorded epochs are part of this page."
    if run.config.activation == "rpau":
        note += f" The noise is up to ±{100 * run.config.alpha:g} % of each coefficient"
        scale = shown_scale(run)
        note += f"; the band shows it {scale} times as wide." if scale > 1 else "."
    unit = next(iter(kept[0]["units"].values()))
    if isinstance(unit["a"][0], list) and len(unit["a"]) > GROUPS:
        note += f" Of a layer with more than {GROUPS} groups, at most {GROUPS} are drawn."
    if len(usable) < len(run.metrics):
        note += " Later coefficients were not finite." if finite_units(run.metrics[0]) else ""
    return note
