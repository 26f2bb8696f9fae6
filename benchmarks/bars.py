"""The bars that the CPU kernel is held to, judged from a record."""

from collections.abc import Iterable
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
TEMPORARY_LIMIT = 0.05  # of x: partial sums, and the pages that a process touches by itself


def judge(record: Record) -> list[Record]:
    """Each bar for each number of threads: value, limit, where the worst value was, passed."""
    rows = []
    for threads in sorted({row["threads"] for row in record["rows"]}):
        cases = [(r.text, r.limit, _ratios(record["rows"], r, threads)) for r in RATIOS]
        units = [
            row
            for row in record["memory"]
            if "PAU" in row["candidate"] and row["threads"] == threads
        ]
        saved = ((row["saved_else_bytes"], _where(row)) for row in units)
        cases.append(("saved besides x and coefficients, bytes", SAVED_LIMIT, saved))
        beyond = ((_peak(row) - row["outputs"], _where(row)) for row in units)
        cases.append(("peak memory beyond the outputs / x", TEMPORARY_LIMIT, beyond))
        for text, limit, found in cases:
            value, where = max(found, default=(None, "not measured"))
            passed = value is not None and value <= limit
            rows.append(
                {"bar": text, "threads": threads, "limit": limit}
                | {"value": value, "where": where, "passed": passed}
            )
    return rows


def _ratios(rows: list[Record], bar: Ratio, threads: int) -> Iterable[tuple[float, str]]:
    p50 = {
        (row["candidate"], row["work"], row["dtype"]): row["p50"]
        for row in rows
        if (row["size"], row["threads"], row["allocator"])
        == (bar.size, threads, "default" if bar.size == "small" else "warm")
    }
    for what in bar.what:
        for work in bar.work:
            for dtype in bar.dtypes:
                one, other = p50.get((what, work, dtype)), p50.get((bar.to, work, dtype))
                if one and other:
                    yield one / other, f"{what}, {dtype}, {work}"


def _peak(row: Record) -> float:
    return max(row["peak_traced"], row["peak_resident"] or 0)


def _where(row: Record) -> str:
    return f"{row['candidate']}, {row['dtype']}, {row['work']}"
