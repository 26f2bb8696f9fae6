"""The paper's pruning table: accuracy and costs by the fraction of filters removed."""

from typing import Any

from padenet.lab.report.cells import Cell
from padenet.lab.report.names import dataset_title, row_title, title
from padenet.lab.report.pruned import PrunedCell, pruned_cells
from padenet.lab.report.tables.table import (
    Column,
    Entry,
    Table,
    count,
    digits,
    spread,
    text_columns,
)


def pruning_tables(cells: list[Cell]) -> list[Table]:
    """One table, or none without pruned runs."""
    curves = pruned_cells(cells)
    return [pruning_table(curves)] if curves else []


def pruning_table(curves: list[list[PrunedCell]]) -> Table:
    """A row a net, activation and fraction."""
    rows, records = [], []
    for curve in curves:
        first = next(p for p in curve if p.fraction)
        for point in curve:
            record = _record(point, first)
            records.append(record)
            key, faster = point.key, record["speedup"]
            rows.append(
                [
                    *map(Entry, (dataset_title(key.dataset), title(key.net))),
                    Entry(row_title(key.activation, key.label)),
                    Entry(f"{point.fraction:g}", point.fraction),
                    Entry(spread(point.mean, point.std), point.mean, note=_note(point)),
                    *(_entry(record[n]) for n in ("parameters", "multiplications", "bytes")),
                    Entry(digits(record["milliseconds"]), record["milliseconds"]),
                    Entry(digits(faster), faster),
                ]
            )
    return Table(
        name="pruning",
        title="Pruned nets",
        caption=(
            "Pruned nets: test accuracy in percent after training again from the first weights, "
            "by percent of the filters of each convolution that were removed. Mean ± sample std "
            "over seeds where there are several. Bytes of the saved net, multiplications of one "
            f"image, {_batch(curves)}"
        ),
        columns=[
            *text_columns("data", "net", "activation"),
            *map(Column, ("removed", "accuracy", "parameters", "multiplications", "bytes")),
            *map(Column, ("ms", "times as fast")),
        ],
        rows=rows,
        records=records,
    )


def _record(point: PrunedCell, pruned: PrunedCell) -> dict[str, Any]:
    """The costs of a whole net are those that its first pruned stage was compared with."""
    names = ("parameters", "multiplications", "bytes", "milliseconds")
    if point.fraction:
        costs = {n: point.cost(n) for n in names}
        ours, theirs = costs["milliseconds"], point.cost("whole_milliseconds")
    else:
        costs = {n: pruned.cost(f"whole_{n}") for n in names}
        ours = theirs = costs["milliseconds"]
    return {
        **point.key._asdict(),
        "fraction": point.fraction,
        "runs": len(point.runs),
        "done": len(point.accuracies),
        "mean": point.mean,
        "std": point.std,
        **costs,
        "speedup": theirs / ours if ours and theirs else None,
    }


def _entry(value: float | None) -> Entry:
    return Entry(digits(None)) if value is None else Entry(f"{value:,.0f}", value)


def _note(point: PrunedCell) -> str:
    lost = len(point.runs) - len(point.accuracies)
    return f"{lost} of {len(point.runs)} lost" if lost else ""


def _batch(curves: list[list[PrunedCell]]) -> str:
    pruned = [p for curve in curves for p in curve if p.fraction]
    images = {int(p.cost("images") or 0) for p in pruned}
    threads = {int(p.cost("threads") or 0) for p in pruned}
    batch = f" of {images.pop()} images" if len(images) == 1 else ""
    on = f" with {count(threads.pop(), 'thread')}" if len(threads) == 1 else ""
    return f"ms of an inference{batch} on the CPU{on}, beside the whole net."
