"""Markdown tables from a CPU record, printed or written into a document.

    python benchmarks/table.py benchmarks/results/cpu.json
    python benchmarks/table.py benchmarks/results/cpu.json --parts large bars --into README.md

``--into`` replaces what stands between ``<!-- cpu-table -->`` and ``<!-- /cpu-table -->``.
"""

import argparse
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from bars import BFLOAT16, BOTH, FLOAT32, FORWARD, is_noisy
from measure import Record

MARKERS = ("<!-- cpu-table -->", "<!-- /cpu-table -->")
SHORT = {FLOAT32: "fp32", BFLOAT16: "bf16"}


def draw(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rule = ["---"] + ["---:"] * (len(head) - 1)
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, rule, *lines))


def select(rows: list[Record], **fields: object) -> list[Record]:
    return [r for r in rows if all(r[k] == v for k, v in fields.items())]


def threads_of(record: Record) -> list[int]:
    return sorted({row["threads"] for row in record["rows"]})


def plural(threads: int) -> str:
    return "1 thread" if threads == 1 else f"{threads} threads"


def time_table(rows: list[Record], unit: str) -> str:
    """One line a candidate: p50 (p20–p80) and the ratio to relu for each dtype and work."""
    scale, digits = (1e3, 1) if unit == "µs" else (1, 2)
    cell = {(r["candidate"], r["dtype"], r["work"]): r for r in rows}
    columns = [
        (dtype, work)
        for dtype in (FLOAT32, BFLOAT16)
        for work in (FORWARD, BOTH)
        if ("relu", dtype, work) in cell
    ]
    head = [unit]
    for dtype, work in columns:
        head += [f"{SHORT[dtype]} {work}", "× relu"]
    lines = []
    for name in dict.fromkeys(r["candidate"] for r in rows):
        line = [name]
        for dtype, work in columns:
            row = cell.get((name, dtype, work))
            if row is None:
                line += ["", ""]
                continue
            low, mid, high = (f"{row[p] * scale:.{digits}f}" for p in ("p20", "p50", "p80"))
            ratio = row["p50"] / cell["relu", dtype, work]["p50"]
            line += [f"{mid} ({low}–{high})", f"{ratio:.2f}"]
        lines.append(line)
    return draw(head, lines)


def times(record: Record, size: str, allocator: str, unit: str) -> str:
    parts = []
    for threads in threads_of(record):
        rows = select(record["rows"], size=size, allocator=allocator, threads=threads)
        if rows:
            shape = tuple(rows[0]["shape"])
            parts.append(f"{shape}, {plural(threads)}, {allocator} allocator: p50 (p20–p80)")
            parts.append(time_table(rows, unit))
    return "\n\n".join(parts)


def memory(record: Record) -> str:
    """The larger of both peaks, and what is saved: the most over the thread counts."""
    most: dict[str, dict[tuple[str, str], float]] = {}
    for row in record["memory"]:
        line = most.setdefault(row["candidate"], {})
        peak = max(row["peak_traced"], row["peak_resident"] or 0)
        for column, value in ((row["work"], peak), ("saved for backward", row["saved"])):
            place = (row["dtype"], column)
            line[place] = max(value, line.get(place, 0))
    order = [(d, c) for d in SHORT for c in (FORWARD, BOTH, "saved for backward")]
    columns = [c for c in order if all(c in line for line in most.values())]
    head = ["memory, in sizes of x", *(f"{SHORT[dtype]} {column}" for dtype, column in columns)]
    lines = [[name, *(f"{line[c]:.2f}" for c in columns)] for name, line in most.items()]
    return draw(head, lines)


def bars(record: Record) -> str:
    counts = threads_of(record)
    cell = {(row["bar"], row["threads"]): row for row in record["bars"]}
    lines, failed = [], []
    for text in dict.fromkeys(row["bar"] for row in record["bars"]):
        line = [text, f"≤ {cell[text, counts[0]]['limit']:g}"]
        for threads in counts:
            row = cell[text, threads]
            value = "not measured" if row["value"] is None else f"{row['value']:.3g}"
            line.append(f"{value} {'pass' if row['passed'] else '**fail**'}")
            if threads == 1:
                cpu = row.get("by_cpu_time")
                line.append("" if cpu is None else f"{cpu:.3g}")
            if not row["passed"] and row["where"]:
                failed.append(f"{text}, {plural(threads)}: worst at {row['where']}")
        lines.append(line)
    noise = [
        f"{plural(n['threads'])}: spread (p80 - p20) / p50 {n['spread']:.0%}, {n['busy']:.2f} "
        f"cores busy{' - **too noisy to judge by, run again on an idle machine**' * is_noisy(n)}"
        for n in record["noise"]
    ]
    head = ["bar", "limit"]
    for threads in counts:
        head += [plural(threads)] + ["its CPU time"] * (threads == 1)
    table = draw(head, lines)
    return "\n\n".join([table, "\n".join(f"- {text}" for text in failed + noise)])


PARTS: dict[str, Callable[[Record], str]] = {
    "large": lambda record: times(record, "large", "warm", "ms"),
    "cold": lambda record: times(record, "large", "default", "ms"),
    "small": lambda record: times(record, "small", "default", "µs"),
    "memory": memory,
    "bars": bars,
}


def render(record: Record, parts: Iterable[str] = tuple(PARTS)) -> str:
    made = record["made"]
    state = ", with changes" if made["dirty"] else ""
    foot = (
        f"{made['cpu']}, {made['cores']} cores · {made['os']} · torch {made['torch']} · "
        f"padenet {made['padenet']} ({made['backends']['native']}) · "
        f"commit {(made['commit'] or 'none')[:10]}{state} · {made['date'][:10]}"
    )
    return "\n\n".join([text for part in parts if (text := PARTS[part](record))] + [foot])


def insert(text: str, path: Path) -> None:
    """Put ``text`` between the markers of the document."""
    document = path.read_text(encoding="utf-8")
    start, end = MARKERS
    if document.count(start) != 1 or document.count(end) != 1:
        raise SystemExit(f"{path} must hold {start} and {end} once each.")
    before, rest = document.split(start)
    after = rest.split(end)[1]
    path.write_text(f"{before}{start}\n{text}\n{end}{after}", encoding="utf-8")


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("record", type=Path)
    p.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    p.add_argument("--into", type=Path, help="a Markdown file with the two markers")
    args = p.parse_args()
    text = render(json.loads(args.record.read_text(encoding="utf-8")), args.parts)
    if args.into:
        insert(text, args.into)
    else:
        print(text)


if __name__ == "__main__":
    main()
