"""What a report says of its runs as a whole: how many, how long, on which machines."""

from collections import Counter

from padenet.lab.records.run import Run
from padenet.lab.report.cells import number, status
from padenet.lab.report.tables.table import count

NOT_RECORDED = "not recorded"  # by the version that trained


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
