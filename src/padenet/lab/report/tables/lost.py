"""The table of runs that have no value."""

from padenet.lab.report.cells import Cell, status
from padenet.lab.report.tables.table import Column, Entry, Table, text_columns


def lost_tables(cells: list[Cell]) -> list[Table]:
    """The runs that have no value, with the reason recorded; none if there are none."""
    rows, records = [], []
    for run in (r for c in cells for r in c.runs):
        kind = status(run)
        if kind == "done":
            continue
        last = max((m.get("epoch", 0) for m in run.metrics), default=None)
        reason = run.result.get("reason", "") if run.result else run.failure
        rows.append(
            [
                Entry(run.config.name),
                Entry(kind),
                Entry("–" if last is None else f"{last} of {run.config.epochs}", last),
                Entry(reason or "–"),
            ]
        )
        records.append(
            {"run": run.config.name, "status": kind, "last_epoch": last, "reason": reason}
        )
    columns = [*text_columns("run", "status"), Column("last epoch"), *text_columns("reason")]
    caption = "Runs that enter no mean. An unfinished one is resumed when its command is repeated."
    return [Table("lost", "Runs without a value", caption, columns, rows, records)] if rows else []
