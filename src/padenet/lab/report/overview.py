"""What was run, on what, with which settings, and what came to no value."""

from collections import Counter
from dataclasses import asdict
from typing import Any

from padenet.lab.records.store import Run
from padenet.lab.report.cells import Cell, Key, number, status
from padenet.lab.report.names import title
from padenet.lab.report.table import Column, Entry, Table, count, text_columns

NOT_RECORDED = "not recorded"  # by the version that trained
IDENTITY = ("dataset", "net", "activation", "seed", "label")


def counts(runs: list[Run]) -> dict[str, int]:
    """Runs by status, those that occur."""
    found = Counter(status(run) for run in runs)
    return {k: found[k] for k in ("done", "diverged", "failed", "unfinished") if found[k]}


def describe_counts(runs: list[Run]) -> str:
    parts = ", ".join(f"{n} {kind}" for kind, n in counts(runs).items())
    return f"{count(len(runs), 'run')}: {parts}"


def seconds(run: Run) -> float:
    """Wall time: of the result or, of an unfinished run, that of its epochs."""
    whole = number((run.result or {}).get("seconds"))
    return whole if whole is not None else sum(number(m.get("seconds")) or 0 for m in run.metrics)


def duration(total: float) -> str:
    minutes, rest = divmod(round(total), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def facts(runs: list[Run]) -> dict[str, str]:
    """For the head of a report: runs, time, and every machine, version and commit there was."""
    time = f"{duration(sum(map(seconds, runs)))} of training, summed over the runs"
    found = {"runs": describe_counts(runs), "time": time}
    epochs = sum(max((m.get("epoch", 0) for m in run.metrics), default=0) for run in runs)
    found["epochs"] = f"{epochs:,} trained in all"
    machines = [(run.result or {}).get("machine") or {} for run in runs if run.result]
    for name in dict.fromkeys(name for machine in machines for name in machine):
        values = Counter(str(m[name]) for m in machines if m.get(name) not in (None, ""))
        counted = values.most_common()
        if counted and (older := sum(name not in m for m in machines)):
            counted.append((NOT_RECORDED, older))
        listed = [f"{v} ({n})" if len(counted) > 1 else v for v, n in counted]
        if listed:
            found[name] = ", ".join(listed[:8]) + (" …" if len(listed) > 8 else "")
    return found


def settings_table(cells: list[Cell]) -> Table:
    """A column a data set and net: the value most activations have, and those that differ."""
    places = list(dict.fromkeys(c.key[:2] for c in cells))
    settings = {c.key: asdict(c.runs[0].config) for c in cells}
    rows = []
    for name in (n for n in next(iter(settings.values())) if n not in IDENTITY):
        line = [_common(name, {k: s for k, s in settings.items() if k[:2] == p}) for p in places]
        if any(entry != Entry("–") for entry in line):
            rows.append([Entry(name), *line])
    columns = text_columns("setting", *(f"{title(d)}, {title(n)}" for d, n in places))
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
