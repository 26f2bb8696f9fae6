"""Write conformance/cases.json: problems, their exact answers, and how far off each may be.

The problems are those of conformance/problems.py. The answers are computed with 60 digits and the
error bounds derived as tests/shared/exact.py says; the noise comes from tests/shared/philox.py.
What the file means: conformance/README.md.

Run: python tools/make_conformance.py           (some seconds; needs gmpy2)
"""

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gmpy2
import numpy as np
import torch

ROOT = Path(__file__).parent.parent
OUT = ROOT / "conformance" / "cases.json"
sys.path += [str(ROOT / "tests" / "shared"), str(OUT.parent)]

from exact import Exact  # noqa: E402
from philox import noises  # noqa: E402
from problems import Problem, problems  # noqa: E402

COMPUTED_IN = {"float32": torch.float32, "float64": torch.float64}
DTYPES = {**COMPUTED_IN, "bfloat16": torch.bfloat16, "float16": torch.float16}
NAMES = ("y", "dx", "da", "db")
LARGEST = sys.float_info.max
OVERFLOWS = LARGEST * (1 + gmpy2.mpfr(2) ** -54)  # from here on, float64 rounds to infinity


def holds(values: np.ndarray, dtype: torch.dtype) -> bool:
    t = torch.tensor(values)
    return bool(((t.to(dtype).double() == t) | t.isnan()).all())


def dtypes_of(p: Problem) -> list[str]:
    """Those that hold x and dy as they are, and coefficients without over- or underflow."""
    found = []
    for name, dtype in DTYPES.items():
        info = torch.finfo(torch.float64 if name == "float64" else torch.float32)
        c = abs(np.concatenate([p.a.ravel(), p.b.ravel()]))
        fits = ((c == 0) | ((c >= info.smallest_normal) & (c <= info.max))).all()
        if fits and name in (p.dtypes or DTYPES) and holds(p.x, dtype) and holds(p.dy, dtype):
            found.append(name)
    return found


def solve(p: Problem) -> dict[str, Any]:
    """The problem with its answers, as the file has it."""
    nan = np.isnan(p.x)
    x = torch.tensor(np.where(nan, 1.0, p.x)).reshape(p.x.shape or (1,))
    a, b, dy = (torch.tensor(v) for v in (p.a, p.b, p.dy))
    form, q, channel_dim, alpha = p.spec
    noise = None
    if p.key is not None:
        count = a.shape[-1] + b.shape[-1]
        u = np.array([noises(p.key, i, count) for i in range(x.numel())])
        noise = [alpha * v.reshape(x.shape) for v in u.T]
    dtypes = dtypes_of(p)
    case: dict[str, Any] = {
        "name": p.name, "form": form, "q": plain(q), "channel_dim": channel_dim,
        "shape": list(p.x.shape), "dtypes": dtypes, "a": plain(p.a), "b": plain(p.b),
        "x": plain(p.x.ravel()), "dy": plain(p.dy.ravel()), "error": {},
    }  # fmt: skip
    if p.key is not None:
        case |= {"alpha": alpha, "key": str(p.key)}
    for dtype in [d for d in COMPUTED_IN if d in dtypes]:
        unit = Exact(
            x.to(COMPUTED_IN[dtype]), a, b, form=form, q=q, channel_dim=channel_dim, noise=noise,
            digits="mpfr",
        )  # fmt: skip
        found = (unit.y, *unit.gradients(dy.reshape(x.shape)))
        errors = case["error"][dtype] = {}
        for name, near in zip(NAMES, found, strict=True):
            sure = p.sure and (name != "y" or p.dy.any())
            case[name], errors[name] = rounded(near, sure)
            spoilt = nan.ravel() if name in ("y", "dx") else [nan.any()] * len(case[name])
            for i in np.flatnonzero(spoilt):
                case[name][i], errors[name][i] = "nan", 0
    return case


def plain(v: Any) -> Any:
    """As JSON has it, which knows no infinity and no NaN; whole numbers without their ``.0``."""
    if np.ndim(v):
        return [plain(u) for u in v]
    if not math.isfinite(v):
        return repr(float(v))
    whole = abs(v) < 2**53 and v == int(v) and not (v == 0 and np.signbit(v))
    return int(v) if whole else float(v)


def rounded(near: Any, sure: bool) -> tuple[list[Any], list[Any]]:
    """The values as the nearest float64, and their error bounds in two digits, rounded up."""
    values, errors = (np.broadcast_to(t, np.shape(near.v)).ravel() for t in (near.v, near.e))
    found = [one(v, 0 * v if sure else e) for v, e in zip(values, errors, strict=True)]
    return [v for v, _ in found], [e for _, e in found]


def one(v: Any, e: Any) -> tuple[Any, Any]:
    if gmpy2.is_infinite(e):
        return 0, "inf"
    if abs(v) - e >= OVERFLOWS:
        return repr(math.copysign(math.inf, v)), 0
    near = max(-LARGEST, min(LARGEST, float(v)))
    e = e + abs(v - gmpy2.mpfr(near))
    up = float(f"{e:.1Ue}") if e else 0.0
    return plain(near + 0.0), plain(max(up, 5e-324) if e else 0.0)


def noise_alone() -> list[dict[str, Any]]:
    """``2 k + 1`` of the first 20 noises: u is that / 4096 - 1."""
    keys = (0, 1, 77, 2**31, 2**32 + 1, 0x123456789ABCDEF, 2**61 + 987654321, 2**63 - 1)
    indices = (0, 1, 255, 2**31 + 3, 2**32 - 1, 2**32 + 5, 2**40 + 1)
    at = [(k, i) for n, k in enumerate(keys) for m, i in enumerate(indices) if (n + m) % 2 == 0]
    return [
        {"key": str(k), "index": i, "k": [int((u + 1) * 4096) for u in noises(k, i, 24)]}
        for k, i in at
    ]


def written(cases: Sequence[dict[str, Any]], noise: Sequence[dict[str, Any]]) -> str:
    """One line per case: a change is seen in a diff."""
    lines = lambda rows: ",\n".join(
        json.dumps(row, sort_keys=True, separators=(",", ":"), allow_nan=False) for row in rows
    )
    return f'{{"cases":[\n{lines(cases)}\n],"noise":[\n{lines(noise)}\n]}}\n'


def main() -> None:
    cases = [solve(p) for p in problems()]
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(written(cases, noise_alone()), encoding="utf-8")
    numbers = sum(len(c[n]) for c in cases for n in NAMES)
    size = OUT.stat().st_size
    print(f"{OUT.name}: {len(cases)} cases, {numbers} numbers, {size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
