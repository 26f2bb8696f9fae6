"""The problems of cases.json: every form and degree, groups, the whole range, limits, noise.

Drawn from fixed seeds: the same every time. A number is what float32 holds, and mostly what
bfloat16 or float16 holds too, or else is meant for float64.
"""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from padenet.core.forms import FORMS, Spec
from padenet.lab.records.packed import read_runs

LEARNED = Path(__file__).parent.parent / "results" / "table2" / "runs.jsonl.gz"
INF, NAN = float("inf"), float("nan")


class Problem(NamedTuple):
    """``dtypes`` are those of x that it is for, or else all that can hold it.

    ``sure``: every step is exact in any dtype, or, with dy = 0, its result does not matter.
    """

    name: str
    spec: Spec
    x: np.ndarray
    a: np.ndarray
    b: np.ndarray
    dy: np.ndarray
    key: int | None = None
    sure: bool = False
    dtypes: tuple[str, ...] = ()


def problem(
    name: str, x: Any, a: Any, b: Any, dy: Any = 1.0, key: int | None = None, sure: bool = False,
    dtypes: tuple[str, ...] = (), **spec: Any,
) -> Problem:  # fmt: skip
    x, a, b = (np.array(v, float) for v in (x, a, b))
    dy = np.broadcast_to(np.array(dy, float), x.shape)
    return Problem(name, Spec(**spec), x, a, b, dy, key, sure, dtypes)


DEGREES = [(0, 0), (0, 1), (1, 0), (1, 1), (3, 0), (0, 3), (2, 3), (3, 2), (4, 5), (5, 4), (5, 5)]
DEGREES += [(6, 4), (7, 6), (1, 8), (8, 1), (8, 8)]


def short(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Normal numbers of eight bits, which every dtype holds."""
    return torch.tensor(rng.standard_normal(shape)).to(torch.bfloat16).double().numpy()


def long(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Normal numbers of float32."""
    return rng.standard_normal(shape).astype(np.float32).astype(float)


def units(
    rng: np.random.Generator, form: str, m: int, n: int, groups: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    lead = () if groups is None else (groups,)
    return short(rng, *lead, m + 1), short(rng, *lead, n + FORMS[form].constant)


def of_all_degrees(rng: np.random.Generator) -> Iterator[Problem]:
    for (m, n), form in product(DEGREES, FORMS):
        a, b = units(rng, form, m, n)
        yield problem(f"degrees {m}, {n}", 2 * short(rng, 3), a, b, short(rng, 3), form=form)


def of_all_groups(rng: np.random.Generator) -> Iterator[Problem]:
    layouts: list[tuple[tuple[int, ...], int | None, int]]
    layouts = [((2, 4, 2), 2, 1), ((3, 6), 3, -1), ((1, 3, 2, 2), 3, 1), ((4, 3), 1, 1)]
    layouts += [((6, 2), 2, 0), ((), None, 1), ((0, 4), None, 1), ((0, 4), 2, 1), ((1, 1), 1, 1)]
    for i, ((shape, groups, dim), form) in enumerate(product(layouts, FORMS)):
        draw, q = (short, long)[i // 4 % 2], 0.3 if i // 4 % 2 and FORMS[form].around else 1.0
        a, b = units(rng, form, *((5, 4), (2, 3))[i % 3 == 2], groups)
        x, dy = 1.5 * draw(rng, *shape), draw(rng, *shape)
        name = f"groups {groups}, channel_dim {dim} of {list(shape)}"
        yield problem(name, x, a, b, dy, form=form, q=q, channel_dim=dim)


def of_many_elements(rng: np.random.Generator) -> Iterator[Problem]:
    """Whole vectors and a tail."""
    for form, draw in zip(FORMS, (long, short, short, long), strict=True):
        a, b = units(rng, form, 5, 4)
        yield problem("many", 1.5 * draw(rng, 37), a, b, draw(rng, 37), form=form)
    for form in FORMS:  # with all their digits, the coefficients too
        a, b = (rng.standard_normal(len(c)) for c in units(rng, form, 5, 4))
        yield problem("float64", rng.standard_normal(9), a, b, rng.standard_normal(9), form=form)


def of_q(rng: np.random.Generator) -> Iterator[Problem]:
    for form, q in product(("safe", "offset"), (0.5, 0.1, 1e-3, 1e-6)):
        a, b = units(rng, form, 5, 4)
        x = [*short(rng, 4), 0.0, 2.0**-20, -(2.0**-12)]
        yield problem(f"q {q}", x, a, b, short(rng, 7), form=form, q=q)


UNITS = {
    "lrelu start": (
        [0.033559, 0.505, 1.653407, 2.009933, 0.93185, 0.152413],
        [0.0, 3.98006, 0.0, 0.301807],
    ),
    "(5, 4)": (5, 4),
    "a_5 = 0": ([0.3, -1.25, 0.5, 0.75, -0.375, 0.0], [0.2, -0.3, 0.5, 1.5]),
    "b_4 = 0": ([0.3, -1.25, 0.5, 0.75, -0.375, 0.5], [0.2, -0.3, 0.5, 0.0]),
    "a_5 = b_4 = 0": ([0.3, 1.0, -0.2, 0.1, 0.4, 0.0], [0.2, -0.3, 0.5, 0.0]),
    "b = 0": ([0.3, -1.25, 0.5, 0.75, -0.375, 0.5], [0.0] * 4),
    "identity": ([0.0, 1.0, 0.0, 0.0, 0.0, 0.0], [0.0] * 4),
    "x over Q": ([0.0, 1.0, 0.0, 0.0, 0.0, 0.0], [-0.5, 0.25, 1.5, -0.75]),
    "a = 0": ([0.0] * 6, [-0.5, 0.25, 1.5, -0.75]),
    "all zero": ([0.0] * 6, [0.0] * 4),
    "constant": ([0.5, 0.0, 0.0, 0.0, 0.0, 0.0], [0.0] * 4),
    "tiny a_5, b_4": ([0.3, 1.0, -0.2, 0.1, 0.4, 1e-8], [0.2, -0.3, 0.5, -1e-8]),
    "tinier a_5, b_4": ([0.3, 1.0, -0.2, 0.1, 0.4, 1e-20], [0.2, -0.3, 0.5, 1e-20]),
    "large": ([1e8, -2e8, 3e8, 1e8, -1e8, 2e8], [1e8, 2e8, -1e8, 3e8]),
    "larger": ([5e16, -5e16, 5e16, 5e16, -5e16, 5e16], [5e16, 5e16, 5e16, 5e16]),
    "(0, 0)": (0, 0),
    "(3, 0)": (3, 0),
    "(0, 5)": (0, 5),
    "(4, 5)": (4, 5),
    "(7, 1)": (7, 1),
    "(1, 6)": (1, 6),
    "(7, 6)": (7, 6),
    "(8, 8)": (8, 8),
    "(12, 12)": (12, 12),
}
IN_EVERY_FORM = ("lrelu start", "b_4 = 0", "b = 0", "all zero", "tinier a_5, b_4", "(4, 5)")
RANGES: dict[str, list[float]] = {  # all a dtype can hold; 1.375 has few bits
    "bfloat16": [
        0.0, 2.0**-133, 1.375 * 2.0**-127, 2.0**-126, 1.375 * 2.0**-99, 1.375 * 2.0**-40, 0.125,
        1.375, 5.5, 63.5, 64.5, 4096.0, 1.375 * 2.0**17, 1.375 * 2.0**30, 1.375 * 2.0**47,
        1.375 * 2.0**64, 1.375 * 2.0**99, 1.375 * 2.0**120, 255 * 2.0**120, INF,
    ],
    "float16": [0.0, 2.0**-24, 1.375 * 2.0**-14, 1.375 * 2.0**9, 65504.0, INF],
    "float32": [
        0.0, 2.0**-149, 1.375 * 2.0**-140, float(np.float32(1e-30)), float(np.float32(3e7)),
        float(np.float32(2e12)), float(np.float32(1e30)), float(torch.finfo(torch.float32).max),
        INF,
    ],
    "float64": [
        0.0, 5e-324, 1e-310, 2.0**-1022, 1e-160, 3e22, 1e60, 1.1e110, 1e200, 1e290,
        float(torch.finfo(torch.float64).max), INF,
    ],
}  # fmt: skip
GRADIENTS = {
    "bfloat16": (1.0, 2.0**-60, -(2.0**100), 1.5),
    "float16": (1.0, 2.0**-24, -(2.0**15), 1.5),
    "float32": (1.0, 2.0**-60, -(2.0**100), 1.5),
    "float64": (1.0, 2.0**-480, -(2.0**900), 1.5),
}


def of_the_whole_range(rng: np.random.Generator) -> Iterator[Problem]:
    """A unit for every element: its own da and db are seen, not their sum."""
    cases = [("safe", u) for u in UNITS]
    cases += [(form, u) for form in FORMS if form != "safe" for u in IN_EVERY_FORM]
    others = ("float16", "float32", "float64")
    for i, (form, unit) in enumerate(cases):
        a, b = UNITS[unit]
        if isinstance(a, int):
            a, b = (v.tolist() for v in units(rng, form, a, b))
        elif FORMS[form].constant:
            b = [0.3, *b]
        whole = unit in ("lrelu start", "tinier a_5, b_4")
        for held in ("bfloat16", *(others if whole else others[i % 3 :][:1])):
            pool = RANGES[held]
            count = min(len(pool), 8 if whole else 3)
            at = [(5 * i + 7 * j) % len(pool) for j in range(count)]
            x = [[pool[k] * (-1) ** (i + j + k // 2) for j, k in enumerate(at)]]
            dy = [[GRADIENTS[held][(i + k) % 4] for k in at]]
            dtypes = (held, "float32") if held != "float64" else (held,)
            name = f"{unit}, the range of {held}"
            yield problem(name, x, [a] * count, [b] * count, dy, dtypes=dtypes, form=form)


OVERFLOWS = {  # on the way only: form, q, x, a, b, dy
    "coefficients": ("safe", 1.0, [1e10], [1.0, 1e30], [1e30], [1.0]),
    "all coefficients": ("abs_terms", 1.0, [-0.3, 1e20], [3e38] * 3, [3e38] * 2, [1.0, 1.0]),
    "float64 coefficients": ("safe", 1.0, [2.0, 1e100], [1.0, 1e300], [1e300], [1.0, 1.0]),
    "a_0 / Q(0)": ("offset", 1e-3, [1.0], [1e38], [1e-30, -1.0], [1.0]),
    "terms of a sum": ("safe", 1.0, [1.7e308, -1.7e308], [1.0, 1.0], [0.0], [1.5, 1.5]),
    "near terms": ("safe", 1.0, [4.0, -4.0], [1.0] * 6, [0.0] * 4, [1e38, 1e38]),
    "dy / Q": ("safe", 1e-3, [1e-10], [1e-3, 1.0], [1.0], [1e38]),
    "dy / Q at 0": ("safe", 1e-3, [1.0], [0.0, 1e-3], [0.0], [1e37]),
    "A' F near 0": ("abs_terms", 1.0, [-1e-290], [3e23], [1e308, 1e254], [1.5]),
    "A' F": ("safe", 1e-6, [4096.0], [0.0, 0.0, 1e11], [-4096.0, 1.0], [1e-37]),
}
UNDERFLOWS = {  # dy / Q is 0 or loses digits, dy F' does not: form, x, dy
    "float32": ("safe", 400.0, 1e-32),
    "float32, terms": ("abs_terms", -400.0, -1e-32),
    "float64": ("offset", -4.6e24, 5e-227),
    "float64, terms": ("abs_terms", 2.2e11, 8.9e-297),
}
KINKS = [  # A = 0, so that s = 0
    ("safe", 0.0, [5.0, 2.0]), ("safe", -0.0, [5.0, 2.0]), ("safe", 1.0, [1.0, -1.0]),
    ("safe", -2.0, [0.0, 4.0, 0.0, -1.0]), ("safe", 3.0, []), ("safe", 3.0, [0.0, 0.0]),
    ("abs_terms", 0.0, [5.0, 2.0]), ("abs_terms", 3.0, [0.0]), ("offset", 2.0, [-2.0, 1.0]),
    ("offset", 0.0, [0.0, 1.0]),
]  # fmt: skip


def of_limits(rng: np.random.Generator) -> Iterator[Problem]:
    for name, (form, q, x, a, b, dy) in OVERFLOWS.items():
        wide = max(map(abs, (*x, *a, *b))) > 1e39 or min(map(abs, x)) < 1e-40
        x, dy = ((v if wide else np.float32(v)) for v in (x, dy))
        yield problem(f"overflow of {name}", x, a, b, dy, form=form, q=q)
    for name, (form, at, g) in UNDERFLOWS.items():
        a, b = [-1.0, 2.0, 0.0, -0.75, 0.25, 1.5], [0.5, -0.25, -1.0, 1.25, 0.25]
        x, dy = (np.full(3, at), np.full(3, g))
        x, dy = (np.float32(v) if "32" in name else v for v in (x, dy))
        b = b[not FORMS[form].constant :]
        yield problem(f"underflow of dy / Q, {name}", x, a, b, dy, form=form)
    for form, at, b in KINKS:
        yield problem(f"kink at {at}", [at] * 4, [3.0, 2.0], b, form=form, sure=True)
    yield problem("kinks", [1.0, -1.0, 0.0, -0.0], [1.0, 1.0], [1.0, 0.0, -1.0], sure=True)
    small = [2.0**-133, -1.375 * 2.0**-127, 2.0**-126, -1.375 * 2.0**-99, 1.375 * 2.0**-40]
    for form, q in product(("safe", "offset"), (1.0, 0.25)):
        b = [0.0] * FORMS[form].constant + [2.0]
        for name, x in (("+", small), ("-", [-v for v in small])):
            yield problem(f"1 / (q + |2 x|) near {name}0", x, [1.0], b, form=form, q=q)


def of_what_is_promised(rng: np.random.Generator) -> Iterator[Problem]:
    for form in FORMS:
        a, b = units(rng, form, 5, 4)
        x = short(rng, 6)
        yield problem("NaN comes out where it went in", [*x, NAN], a, b, form=form)
        far = [65504.0, 255 * 2.0**120, float(torch.finfo(torch.float64).max)]
        for top in far:
            name = f"dy = 0, x up to {top:.4g}"
            yield problem(name, [*x[:3], 0.0, top, -top], a, b, 0.0, form=form, sure=True)
    yield problem("a_0 / Q(0), dy = 0", [1.0], [1e38], [1e-30, -1.0], 0.0, form="offset", q=1e-3,
                  sure=True)  # fmt: skip
    yield problem("a_0 / q, dy = 0", [1.0], [1e38], [1.0], 0.0, q=1e-3, sure=True)


def of_learned_units(rng: np.random.Generator) -> Iterator[Problem]:
    runs = [r for r in read_runs(LEARNED) if r.config.activation in ("pau", "rpau")]
    for i, run in enumerate(runs[:: max(len(runs) // 8, 1)][:8]):
        name, unit = sorted(run.metrics[-1]["units"].items())[i % 2]
        x = [*(3 * short(rng, 8)), -10.0, 200.0]
        c = run.config
        title = f"learned: {c.dataset}, {c.net}, {c.activation}, seed {c.seed}, {name}"
        yield problem(title, x, unit["a"], unit["b"], short(rng, 10), form=c.form)


def of_noise(rng: np.random.Generator) -> Iterator[Problem]:
    layouts: list[tuple[str, tuple[int, int], int | None, tuple[int, ...], float]]
    layouts = [("safe", (5, 4), None, (3, 4), 1.0), ("safe", (7, 6), 2, (1, 4, 2, 2), 0.5)]
    layouts += [("safe", (5, 4), 4, (3, 4), 1.0), ("abs_terms", (5, 4), 4, (3, 4), 1.0)]
    layouts += [("free", (2, 3), None, (3, 4), 1.0), ("offset", (1, 1), 2, (3, 4), 1.0)]
    layouts += [("offset", (8, 8), None, (2, 5), 0.1), ("safe", (5, 4), None, (37,), 1.0)]
    keys = [2**61 + 987654321, 0, 77, 0x123456789ABCDEF, 2**63 - 1, 5, 2**32, 2**31 - 1]
    for (form, (m, n), groups, shape, q), key in zip(layouts, keys, strict=True):
        a, b = units(rng, form, m, n, groups)
        name = f"noise, degrees {m}, {n}"
        x, dy = short(rng, *shape), short(rng, *shape)
        yield problem(name, x, a, b, dy, key, form=form, q=q, alpha=0.25)


PARTS = (of_all_degrees, of_all_groups, of_many_elements, of_q, of_the_whole_range, of_limits)
PARTS += (of_what_is_promised, of_learned_units, of_noise)


def problems() -> list[Problem]:
    found: list[Problem] = []
    for seed, part in enumerate(PARTS):
        found += part(np.random.default_rng(seed))
    return found
