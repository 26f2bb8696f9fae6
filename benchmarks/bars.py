"""The bars that the kernels are held to, judged from a record."""

import statistics
from dataclasses import dataclass

from measure import Record

FORWARD, BACKWARD, BOTH = "forward", "backward", "forward + backward"
FLOAT32, BFLOAT16 = "float32", "bfloat16"
ALL = {"work": (FORWARD, BOTH), "dtypes": (FLOAT32, BFLOAT16)}


@dataclass(frozen=True)
class Ratio:
    """p50 of each of ``what`` over p50 of ``to``, the worst of all works and dtypes.

    A limit of None judges nothing: the ratio is of interest.
    """

    text: str
    limit: float | None
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
    Ratio("one unit per channel / one", 1.15, ("PAU, 64 groups",), "PAU", **ALL),
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
GPU_FLOOR = "floor: copy, add"  # a copy for forward, a three-stream add for backward
_F, _B = {"work": (FORWARD,)}, {"work": (BACKWARD,)}
_BF16 = {"dtypes": (BFLOAT16,)}
_CHANNELS = {"dtypes": (FLOAT32, BFLOAT16), "size": "channels"}
_GROUPS = (("PAU, 8 groups",), GPU_FLOOR)
_NCHW = (("PAU, 64 groups",), "PAU")
_NHWC = (("PAU, 64 groups, channels_last",), "PAU, channels_last")
GPU_RATIOS = (
    Ratio("fp32 forward / copy", 1.02, ("PAU",), GPU_FLOOR, **_F),
    Ratio("bf16 forward / copy", 1.02, ("PAU",), GPU_FLOOR, **_F, **_BF16),
    Ratio("fp32 backward / add", 1.05, ("PAU",), GPU_FLOOR, **_B),
    Ratio("bf16 backward / add", 1.25, ("PAU",), GPU_FLOOR, **_B, **_BF16),
    Ratio("8 groups, fp32 forward / copy", None, *_GROUPS, **_F, size="groups"),
    Ratio("8 groups, bf16 forward / copy", None, *_GROUPS, **_F, **_BF16, size="groups"),
    Ratio("8 groups, fp32 backward / add", 1.15, *_GROUPS, **_B, size="groups"),
    Ratio("8 groups, bf16 backward / add", 1.4, *_GROUPS, **_B, **_BF16, size="groups"),
    Ratio("one unit per channel / one, forward", 1.15, *_NCHW, **_F, **_CHANNELS),
    Ratio("one unit per channel / one, backward", 1.15, *_NCHW, **_B, **_CHANNELS),
    Ratio("one unit per channel / one, channels_last, forward", 1.15, *_NHWC, **_F, **_CHANNELS),
    Ratio("one unit per channel / one, channels_last, backward", 1.15, *_NHWC, **_B, **_CHANNELS),
    Ratio("RPAU / PAU, fp32 forward", 2.0, ("RPAU",), "PAU", **_F),
    Ratio("RPAU / PAU, fp32 backward", 2.0, ("RPAU",), "PAU", **_B),
    Ratio("RPAU / PAU, bf16 forward", None, ("RPAU",), "PAU", **_F, **_BF16),
    Ratio("RPAU / PAU, bf16 backward", None, ("RPAU",), "PAU", **_B, **_BF16),
    Ratio("small tensor, forward + backward / prelu", 1.5, ("PAU",), "prelu", size="small"),
    Ratio("compiled BN, unit, conv: PAU / relu", None, ("PAU",), "relu", **_BF16, size="chain"),
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
        cases = [
            (r.text, r.limit, _ratios(_rows(record["rows"], r.size, threads), r, "p50"))
            for r in RATIOS
        ]
        saved = [(row["saved_else_bytes"], _where(row)) for row in units]
        cases.append(("saved besides x and coefficients, bytes", SAVED_LIMIT, saved))
        beyond = [(round(_peak(row) - row["outputs"], 4), _where(row)) for row in units]
        cases.append(("peak memory beyond the outputs / x", TEMPORARY_LIMIT, beyond))
        for text, limit, found in cases:
            rows.append(_verdict(text, limit, found) | {"threads": threads})
        if threads == 1:
            for row, bar in zip(rows, RATIOS, strict=False):
                found = _ratios(_rows(record["rows"], bar.size, threads), bar, "cpu_p50")
                row["by_cpu_time"] = max(found, default=(None,))[0]
    return rows


def judge_gpu(record: Record) -> list[Record]:
    """Each bar by p50; ``passed`` is None where there is no limit."""
    rows = record["rows"]
    return [
        _verdict(r.text, r.limit, _ratios([row for row in rows if row["size"] == r.size], r, "p50"))
        for r in GPU_RATIOS
    ]


def _verdict(text: str, limit: float | None, found: list[tuple[float, str]]) -> Record:
    value, where = max(found, default=(None, "not measured"))
    return {
        "bar": text,
        "limit": limit,
        "value": value,
        "where": where if len(found) != 1 else None,
        "passed": None if limit is None else value is not None and value <= limit,
    }


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


def _ratios(rows: list[Record], bar: Ratio, time: str) -> list[tuple[float, str]]:
    p50 = {(row["candidate"], row["work"], row["dtype"]): row[time] for row in rows}
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
