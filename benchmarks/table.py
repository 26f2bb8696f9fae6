"""Markdown tables from a record, printed or written into a document.

    python benchmarks/table.py benchmarks/results/cpu.json
    python benchmarks/table.py benchmarks/results/cpu.json --into docs/performance.md
    python benchmarks/table.py benchmarks/results/gpu.json --into docs/performance.md
    python benchmarks/table.py benchmarks/results/[cg]pu.json --into README.md

``--into`` replaces what stands between ``<!-- cpu-table -->`` and ``<!-- /cpu-table -->``, or for a
record of ``gpu.py`` between ``<!-- gpu-table -->`` and ``<!-- /gpu-table -->``. Of several records
it is the summary, between ``<!-- speed-table -->`` and ``<!-- /speed-table -->``.
"""

import argparse
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from bars import BACKWARD, BFLOAT16, BOTH, FLOAT32, FORWARD, GPU_FLOOR, is_noisy
from candidates import PLAIN
from measure import Record

SHORT = {FLOAT32: "fp32", BFLOAT16: "bf16"}
OTHERS = {"relu": "ReLU", "gelu": "GELU", "prelu": "PReLU"}  # what the summary compares PAU with


def draw(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rule = ["---"] + ["---:"] * (len(head) - 1)
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, rule, *lines))


def select(rows: list[Record], **fields: object) -> list[Record]:
    return [r for r in rows if all(r[k] == v for k, v in fields.items())]


def threads_of(record: Record) -> list[int]:
    return sorted({row["threads"] for row in record["rows"]})


def plural(threads: int) -> str:
    return "1 thread" if threads == 1 else f"{threads} threads"


def time_table(rows: list[Record], unit: str, to: str = "relu") -> str:
    """One line per candidate: p50 (p20–p80) and the ratio to ``to`` for each dtype and work."""
    scale, digits = (1e3, 1) if unit == "µs" else (1, 3 if to == GPU_FLOOR else 2)
    cell = {(r["candidate"], r["dtype"], r["work"]): r for r in rows}
    columns = [
        (dtype, work)
        for dtype in (FLOAT32, BFLOAT16)
        for work in (FORWARD, BACKWARD, BOTH)
        if (to, dtype, work) in cell
    ]
    head = [unit]
    for dtype, work in columns:
        head += [f"{SHORT[dtype]} {work}", f"× {to.split(':')[0]}"]
    lines = []
    for name in dict.fromkeys(r["candidate"] for r in rows):
        line = [name]
        for dtype, work in columns:
            row = cell.get((name, dtype, work))
            if row is None:
                line += ["", ""]
                continue
            low, mid, high = (f"{row[p] * scale:.{digits}f}" for p in ("p20", "p50", "p80"))
            ratio = row["p50"] / cell[to, dtype, work]["p50"]
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


def processor(record: Record) -> str:
    """How many times the processor time of the kernel and of GELU the plain path takes."""
    busy = {(r["candidate"], r["dtype"], r["work"], r["threads"]): r for r in record["rows"]}
    lines = []
    for (name, *case), row in busy.items():
        if name != PLAIN:
            continue
        ratios = [row["cpu_p50"] / busy[(to, *case)]["cpu_p50"] for to in ("PAU", "gelu")]
        dtype, work, threads = case
        lines.append([f"{SHORT[dtype]} {work}, {plural(threads)}", *(f"{v:.1f}" for v in ratios)])
    return draw([f"processor time, {PLAIN}", "× PAU", "× gelu"], lines)


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


def called(bar: str) -> str:
    """Records keep the name that a bar had when they were made."""
    return bar.replace("one unit a channel", "one unit per channel")


def bars(record: Record) -> str:
    counts = threads_of(record)
    cell = {(row["bar"], row["threads"]): row for row in record["bars"]}
    lines, failed = [], []
    for text in dict.fromkeys(row["bar"] for row in record["bars"]):
        name = called(text)
        line = [name, f"≤ {cell[text, counts[0]]['limit']:g}"]
        for threads in counts:
            row = cell[text, threads]
            value = "not measured" if row["value"] is None else f"{row['value']:.3g}"
            line.append(f"{value} {'pass' if row['passed'] else '**fail**'}")
            if threads == 1:
                cpu = row.get("by_cpu_time")
                line.append("" if cpu is None else f"{cpu:.3g}")
            if not row["passed"] and row["where"]:
                failed.append(f"{name}, {plural(threads)}: worst at {row['where']}")
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


def gpu_times(record: Record, size: str, unit: str = "ms", to: str = GPU_FLOOR) -> str:
    rows = select(record["rows"], size=size)
    if not rows:
        return ""
    text = f"{GPU_TITLES[size]}, {tuple(rows[0]['shape'])}: p50 (p20–p80)"
    return f"{text}\n\n{time_table(rows, unit, to)}"


def gpu_bars(record: Record) -> str:
    lines = []
    for row in record["bars"]:
        limit = "" if row["limit"] is None else f"≤ {row['limit']:g}"
        value = "not measured" if row["value"] is None else f"{row['value']:.3f}"
        verdict = {True: "pass", False: "**fail**", None: "no bar"}[row["passed"]]
        lines.append([called(row["bar"]), limit, value, verdict])
    notes = [
        f"{called(row['bar'])}: worst at {row['where']}"
        for row in record["bars"]
        if row["passed"] is False and row["where"]
    ]
    notes += [f"{name}: {text}" for name, text in record["errors"].items()]
    notes.append(f"spread (p80 - p20) / p50, median of all rows: {record['spread']:.1%}")
    table = draw(["bar", "limit", "value", ""], lines)
    return "\n\n".join([table, "\n".join(f"- {text}" for text in notes)])


def speed(records: Iterable[Record]) -> str:
    """Time of a PAU over that of others: forward and backward, one large tensor."""
    lines, made = [], []
    for record in records:
        rows = select(record["rows"], size="large")
        name = record["made"].get("gpu") or f"{record['made']['cpu']}, 1 thread"
        if record["benchmark"] != "gpu":
            rows = select(rows, threads=1, allocator="warm")
        for dtype in SHORT:
            time = {c: both_ways(select(rows, candidate=c, dtype=dtype)) for c in (*OTHERS, "PAU")}
            ratios = [f"{time['PAU'] / time[other]:.2f}" for other in OTHERS]
            lines.append([f"{name}, {dtype}", f"{time['PAU']:.3g} ms", *ratios])
        shape = " × ".join(str(n) for n in rows[0]["shape"])
        made.append(
            f"{record['made'].get('gpu') or record['made']['cpu']}: {shape} elements, "
            f"torch {record['made']['torch']}, commit {record['made']['commit'][:10]}, "
            f"{record['made']['date'][:10]}"
        )
    table = draw(["", "PAU", *(f"÷ {title}" for title in OTHERS.values())], lines)
    return "\n\n".join([table, f"<sub>{' · '.join(made)}</sub>"])


def both_ways(rows: list[Record]) -> float:
    """Forward and backward in ms, measured together or added."""
    time = {row["work"]: row["p50"] for row in rows}
    return float(time[BOTH] if BOTH in time else time[FORWARD] + time[BACKWARD])


GPU_TITLES = {
    "large": "One unit",
    "groups": "8 groups",
    "channels": "One unit per layer and one per channel (64 groups)",
    "small": "Eager modules, wall time",
    "chain": "Batch norm, unit and convolution in one compiled graph, bf16",
}
Parts = dict[str, Callable[[Record], str]]
CPU_PARTS: Parts = {
    "large": lambda record: times(record, "large", "warm", "ms"),
    "cold": lambda record: times(record, "large", "default", "ms"),
    "small": lambda record: times(record, "small", "default", "µs"),
    "memory": memory,
    "bars": bars,
}
PLAIN_PARTS: Parts = {"large": CPU_PARTS["large"], "processor": processor}
GPU_PARTS: Parts = {
    "large": lambda record: gpu_times(record, "large"),
    "groups": lambda record: gpu_times(record, "groups"),
    "channels": lambda record: gpu_times(record, "channels"),
    "small": lambda record: gpu_times(record, "small", "µs", "prelu"),
    "chain": lambda record: gpu_times(record, "chain", "ms", "relu"),
    "bars": gpu_bars,
}
PARTS = {"cpu": CPU_PARTS, "plain": PLAIN_PARTS, "gpu": GPU_PARTS}


def render(record: Record, parts: Iterable[str] | None = None) -> str:
    """The parts, all that there are unless some are named, and where the record was made."""
    known = PARTS[record["benchmark"]]
    texts = [known[part](record) for part in (known if parts is None else parts)]
    return "\n\n".join([text for text in texts if text] + [foot(record)])


def foot(record: Record) -> str:
    made = record["made"]
    if record["benchmark"] == "gpu":
        where = (
            f"{made['gpu']} · driver {made['driver']} · CUDA {made['cuda']} · "
            f"torch {made['torch']} · Triton {made['triton']} · Python {made['python']} · "
            f"padenet {made['padenet']}"
        )
    else:
        where = (
            f"{made['cpu']}, {made['cores']} cores · {made['os']} · torch {made['torch']} · "
            f"padenet {made['padenet']} ({made['backends']['native']})"
        )
    state = ", with changes" if made["dirty"] else ""
    return f"{where} · commit {(made['commit'] or 'none')[:10]}{state} · {made['date'][:10]}"


def insert(text: str, path: Path, benchmark: str) -> None:
    """Put ``text`` between the markers of the document."""
    document = path.read_text(encoding="utf-8")
    start, end = f"<!-- {benchmark}-table -->", f"<!-- /{benchmark}-table -->"
    if document.count(start) != 1 or document.count(end) != 1:
        raise SystemExit(f"{path} must hold {start} and {end} once each.")
    before, rest = document.split(start)
    after = rest.split(end)[1]
    path.write_text(f"{before}{start}\n{text}\n{end}{after}", encoding="utf-8")


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("records", nargs="+", type=Path, help="one, or several for the summary")
    p.add_argument("--parts", nargs="+", help="some of: " + ", ".join(CPU_PARTS | GPU_PARTS))
    p.add_argument("--into", type=Path, help="a Markdown file with the two markers")
    args = p.parse_args()
    records = [json.loads(path.read_text(encoding="utf-8")) for path in args.records]
    if len(records) > 1:
        if args.parts:
            p.error("--parts belong to one record")
        block, text = "speed", speed(records)
    else:
        (record,) = records
        block = record["benchmark"]
        if unknown := set(args.parts or ()) - PARTS[block].keys():
            p.error(f"no parts {sorted(unknown)}; of {block} there are {', '.join(PARTS[block])}")
        text = render(record, args.parts)
    if args.into:
        insert(text, args.into, block)
    else:
        print(text)


if __name__ == "__main__":
    main()
