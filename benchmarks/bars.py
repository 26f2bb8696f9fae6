"""The bars that the CPU kernel is held to, judged from a record."""

import statistics
from dataclasses import dataclass

from measure import Record

FORWARD, BOTH = "forward", "forward + backward"
FLOAT32, BFLOAT16 = "float32", "bfloat16"
ALL = {"work": (FORWARD, BOTH), "dtypes": (FLOAT32, BFLOAT16)}


@dataclass(frozen=True)
class Ratio:
    """p50 of each of ``what`` over p50 of ``to``, the worst of all works and dtypes."""

    text: str
    limit: float
    what: tuple[str, ...]
    to: str
    work: tuple[str, ...] = (BOTH,)
    dtypes: tuple[str, ...] = (FLOAT32,)
    size: str = "large"


RATIOS = (
    Ratio("fp32 forward / relu", 1.05, ("PAU",), "relu", work=(FORWARD,)),
    Ratio("fp32 forward + backward / relu", 1.25, ("PAU",), "relu"),
    Ratio("fp32 forward + backward / gelu", 0.75, ("PAU",), "gelu"),
    Ratio("bf16 forward + backward / gelu", 1.0, ("PAU",), "gelu", dtypes=(BFLOAT16,)),
    Ratio("8 groups / one", 1.10, ("PAU, 8 groups",), "PAU", **ALL),
    Ratio("one unit a channel / one", 1.15, ("PAU, 64 groups",), "PAU", **ALL),
    Ratio("channels_last / contiguous", 1.15, ("PAU, channels_last",), "PAU", **ALL),
    Ratio(
        "channels_last with groups / one, contiguous",
        1.15,
        ("PAU, 8 groups, channels_last", "PAU, 64 groups, channels_last"),
        "PAU",
        **ALL,
    ),
    Ratio("RPAU forward + backward / PAU", 3.0, ("RPAU",), "PAU", dtypes=ALL["dtypes"]),
    Ratio("small tensor, forward + backward / relu", 2.5, ("PAU",), "relu", size="small"),
)
SAVED_LIMIT = 8  # bytes: the key of RPAU's noise
TEMPORARY_LIMIT = 0.1  # of x: partial sums, and the pages that a process touches by itself


def judge(record: Record) -> list[Record]:
    """Each bar for each number of threads, by p50 of wall time: value, limit, passed.

    ``where`` is the worst of several cases. ``by_cpu_time`` is the ratio in time on the processor,
    for one thread: a second opinion from a machine that is doing other things.
    """
    rows = []
    for threads in sorted({row["threads"] for row in record["rows"]}):
        units = [r for r in record["memory"] if "PAU" in r["candidate"] and r["threads"] == threads]
        cases = [(r.text, r.limit, _ratios(record["rows"], r, threads, "p50")) for r in RATIOS]
        saved = [(row["saved_else_bytes"], _where(row)) for row in units]
        cases.append(("saved besides x and coefficients, bytes", SAVED_LIMIT, saved))
        beyond = [(round(_peak(row) - row["outputs"], 4), _where(row)) for row in units]
        cases.append(("peak memory beyond the outputs / x", TEMPORARY_LIMIT, beyond))
        for text, limit, found in cases:
            value, where = max(found, default=(None, "not measured"))
            row = {"bar": text, "threads": threads, "limit": limit, "value": value}
            row["where"] = where if len(found) != 1 else None
            row["passed"] = value is not None and value <= limit
            rows.append(row)
        if threads == 1:
            for row, bar in zip(rows, RATIOS, strict=False):
                found = _ratios(record["rows"], bar, threads, "cpu_p50")
                row["by_cpu_time"] = max(found, default=(None,))[0]
    return rows


def measure_noise(rows: list[Record], threads: int) -> Record:
    """Over the large rows: median of (p80 - p20) / p50, and of processor time / wall time."""
    found = _rows(rows, "large", threads)
    spread = statistics.median((r["p80"] - r["p20"]) / r["p50"] for r in found)
    busy = statistics.median(r["cpu_p50"] / r["p50"] for r in found)
    return {"threads": threads, "spread": round(spread, 4), "busy": round(busy, 4)}


def is_noisy(noise: Record) -> bool:
    """Whether other processes had a part in the times, which shows by either."""
    return noise["spread"] > 0.1 or noise["busy"] < 0.85 * noise["threads"]


def _rows(rows: list[Record], size: str, threads: int) -> list[Record]:
    """The large shape is judged with a warm allocator, the small one with the default."""
    wanted = (size, threads, "warm" if size == "large" else "default")
    return [row for row in rows if (row["size"], row["threads"], row["allocator"]) == wanted]


def _ratios(rows: list[Record], bar: Ratio, threads: int, time: str) -> list[tuple[float, str]]:
    p50 = {
        (row["candidate"], row["work"], row["dtype"]): row[time]
        for row in _rows(rows, bar.size, threads)
    }
    found = []
    for what in bar.what:
        for work in bar.work:
            for dtype in bar.dtypes:
                one, other = p50.get((what, work, dtype)), p50.get((bar.to, work, dtype))
                if one and other:
                    found.append((round(one / other, 4), f"{what}, {dtype}, {work}"))
    return found


def _peak(row: Record) -> float:
    return max(row["peak_traced"], row["peak_resident"] or 0)


def _where(row: Record) -> str:
    return f"{row['candidate']}, {row['dtype']}, {row['work']}"
