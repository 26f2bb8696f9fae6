r"""The short formula: what exporters record of a unit, some twenty plain operations.

Powers up to min(m, n) are taken of c = clamp(x, -L, L), the rest of x itself. With k = m - n,

    m >= n    F(x) = R(c) / Q(c) x^k + (a_0 + ... + a_(k-1) x^(k-1)) / Q(c)
              R(c) = a_k + a_(k+1) c + ... + a_m c^n
    m <  n    F(x) = P(c) / Q, where the lowest n - m factors of Horner's rule for A are x, not c

Up to L that is F. Beyond, F follows its leading terms and grows or decays as it should, as x^k:

    |y - F(x)| <= (r_P + r_Q) |F(x)|,    r_P = sum_(j<m) |a_j / a_m| L^(j-m),    r_Q alike for Q

to first order, and 0 where m or n is 0. L is the power of two up to which no sum overflows, 2^28
for degrees (5, 4) in float32. Where m < n and Q overflows, y is 0 instead of a number below
2^-126 P(L). NaN gives NaN, and infinity what F tends to, with an error as at the largest x. Poles
of ``free`` are as far off as the rounding of Q moves them. Two ways lead here:

- ``forward`` takes coefficients whose values an exporter does not show. It takes the degrees for
  what they say, and allows for coefficients that add up to 2^14.
- ``fixed`` knows the values: it leaves out what is zero, finds L, and records the long formula of
  ``reference`` where r_P + r_Q is above ``PROMISE``. It divides P and Q by b_n, so that A begins
  with x^n itself: one product less. Where m = n + 1 it divides P by a zero z besides,

      F(x) = R(c) / Q(c) (x - z)                                    P(x) = R(x) (x - z)

  one division less. Rounding is then at most m times that of Horner's rule for P.

``b[0]`` is b_1, except in ``offset``, where it is b_0.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from padenet.core.forms import Spec
from padenet.core.polynomials import crossings, derivative, value
from padenet.torch import reference

ROOM = {torch.float32: 112, torch.float64: 960}
"""Powers are at most 2^ROOM, so that sums of up to 2^14 of them are far from overflow."""
LEAST = 10  # with L below 2^10 the long formula is recorded
PROMISE = 2.0**-20
TINY = 2.0**-100  # numbers below are not counted on to keep their bits

Rows = tuple[tuple[float, ...], ...]  # the coefficients of each group


class Values(NamedTuple):
    """Coefficients in parts of b_n, of each group; ``a`` those of R where ``z`` are zeros of P."""

    a: Rows
    b: Rows
    q: tuple[float, ...]
    z: tuple[float, ...] | None = None


class Plan(NamedTuple):
    """L, and which coefficients are there: the others are zero. The last of each is the degree.

    ``values`` are what to record in place of the coefficients: these are of P or R as they say.
    """

    limit: float
    a: tuple[bool, ...]
    b: tuple[bool, ...]
    values: Values | None = None


def forward(x: Tensor, a: Tensor, b: Tensor, spec: Spec) -> Tensor:
    """F for coefficients whose values are not known."""
    counts = [_count(c) for c in (a, b)]
    m, n = counts[0] - 1, counts[1] - spec.constant
    exponent = ROOM[reference.compute_dtype(x)] // max(n, 1)
    if m and n and exponent < LEAST:
        return reference.forward(x, a, b, None, spec)
    present_a, present_b = ((True,) * count for count in counts)
    return _short(x, a, b, Plan(2.0**exponent, present_a, present_b), spec)


def fixed(x: Tensor, a: Tensor, b: Tensor, rows_a: Rows, rows_b: Rows, spec: Spec) -> Tensor:
    """F for coefficients whose values are those of the rows."""
    plan = _plan_once(rows_a, rows_b, spec, reference.compute_dtype(x))
    if plan is None:
        return reference.forward(x, a, b, None, spec)
    if torch.jit.is_tracing():  # which warns of every new constant
        plan = plan._replace(a=_present(rows_a, 1), b=_present(rows_b, spec.constant), values=None)
    if (values := plan.values) is None:
        return _short(x, a, b, plan, spec)
    options: Any = {"dtype": reference.compute_dtype(x), "device": x.device}
    zeros = values.z or (0.0,) * len(values.q)
    tops = [(*row, z) for row, z in zip(values.a, zeros, strict=True)]
    bottoms = [(*row, q) for row, q in zip(values.b, values.q, strict=True)]
    a, b = (torch.tensor(c if a.ndim == 2 else c[0], **options) for c in (tops, bottoms))
    return _short(x, a, b, plan, spec)


def count_operations(a: Tensor, b: Tensor, spec: Spec) -> int:
    """How many operations on x ``forward`` records: nodes of an ONNX file, work an element."""
    if a.ndim == 2:
        a, b = a[0], b[0]
    x = torch.zeros(2, 2, device=a.device)  # of a shape that no coefficients have
    with torch.no_grad(), _Counter(x.shape) as counter:
        forward(x, a.float(), b.float(), spec)
    return counter.count


class _Counter(TorchDispatchMode):
    def __init__(self, shape: torch.Size):
        super().__init__()
        self.shape, self.count = shape, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        y = func(*args, **(kwargs or {}))
        self.count += y.shape == self.shape if isinstance(y, Tensor) else 0
        return y


def find_plan(rows_a: Rows, rows_b: Rows, spec: Spec, dtype: torch.dtype) -> Plan | None:
    """The plan of these coefficients, or None where the short formula may miss the promise."""
    present_a, present_b = _present(rows_a, 1), _present(rows_b, spec.constant)
    m, n = len(present_a) - 1, len(present_b) - spec.constant
    if not (m and n):
        return Plan(1.0, present_a, present_b)
    given = Values(rows_a, rows_b, (spec.q,) * len(rows_a))
    plan = _bound(given, n, spec, dtype)
    values = _divide(given, n, spec)
    if plan is None or values is None or (shorter := _bound(values, n, spec, dtype)) is None:
        return plan
    factors = _find_factors(values, m) if m == n + 1 and present_a[0] else None
    if factors and (shortest := _bound(factors, n, spec, dtype)):
        return shortest._replace(values=factors)
    return shorter._replace(values=values)


def _bound(values: Values, n: int, spec: Spec, dtype: torch.dtype) -> Plan | None:
    """The plan of these values, with L; None where that is too small for the promise."""
    present = _present(values.a, 1), _present(values.b, spec.constant)
    tops = [row[: len(present[0])] for row in values.a]
    bottoms = [(*[0.0] * (1 - spec.constant), *row)[: n + 1] for row in values.b]
    sums = [sum(map(abs, row)) for row in (*tops, *bottoms)]
    growth = max(math.frexp(max(sums))[1], 0)
    exponent = (ROOM[dtype] + 8 - growth) // n
    if not all(map(math.isfinite, sums)) or exponent < LEAST:
        return None
    limit = 2.0**exponent
    zeros = values.z or (0.0,) * len(tops)
    for top, z, (b_0, *bottom), q in zip(tops, zeros, bottoms, values.q, strict=True):
        rest = _rest([abs(b_0) + abs(q), *bottom], limit)
        if _rest(top, limit) + abs(z) / limit + rest > PROMISE:
            return None
    return Plan(limit, *present)


def _divide(given: Values, n: int, spec: Spec) -> Values | None:
    """All in parts of b_n, or of |b_n| where Q has no sign of A; None where bits are lost."""
    leading = [row[n - 1 + spec.constant] for row in given.b]
    if not all(leading):
        return None
    parts = leading if spec.has_poles else [abs(v) for v in leading]
    values = Values(
        tuple(tuple(v / d for v in row) for row, d in zip(given.a, parts, strict=True)),
        tuple(tuple(v / d for v in row) for row, d in zip(given.b, leading, strict=True)),
        tuple(q / d for q, d in zip(given.q, parts, strict=True)),
    )
    numbers = (v for row in (*values.a, *values.b, values.q) for v in row)
    return values if all(v == 0 or TINY < abs(v) < 1 / TINY for v in numbers) else None


_found = lru_cache(find_plan)


def _plan_once(*args: Any) -> Plan | None:
    return _found(*args)


_plan_once._dynamo_marked_constant = True  # type: ignore


def _find_factors(values: Values, m: int) -> Values | None:
    """P taken apart at its zero nearest to 0, in each group; None where one has no good one.

    With a_s z^s the largest of all a_j z^j, R is found from a_0 upwards below s and from a_m
    downwards above it: |R_j x^j| (|x| + |z|) is then below m |a_s x^s| + |a_j x^j| everywhere.
    """
    found = []
    for row in values.a:
        a = np.array(row[: m + 1])
        if a[0] == 0:
            found.append((tuple(row[1 : m + 1]), 0.0))
            continue
        reach = float(2 * max(abs(a[:-1] / a[-1]) ** (1 / np.arange(m, 0, -1))))  # Fujiwara
        at = min(crossings(a, -reach, reach).tolist(), key=abs, default=0.0)
        if at == 0:
            return None
        at = _closer(a, at)
        z, exact = Fraction(at), [Fraction(v) for v in a.tolist()]
        s = max(range(m + 1), key=lambda j: abs(exact[j] * z**j))
        low: list[Fraction] = []
        high = [exact[m]]
        for j in range(s):
            low.append(((low[-1] if low else 0) - exact[j]) / z)
        for j in range(m - 1, s, -1):
            high.append(exact[j] + z * high[-1])
        R = tuple(map(float, [*low, *reversed(high)][:m]))
        if any(0 < abs(v) < TINY for v in (*R, at)):
            return None
        found.append((R, at))
    return values._replace(a=tuple(R for R, _ in found), z=tuple(z for _, z in found))


def _closer(c: np.ndarray, zero: float) -> float:
    """The zero by Newton's steps: found on a wide interval, it is only as good as that is wide."""
    slope, rest = derivative(c), float(value(c, zero))
    for _ in range(20):
        with np.errstate(all="ignore"):
            new = zero - float(rest / value(slope, zero))
            left = float(value(c, new))
        if not abs(left) < abs(rest):
            break
        zero, rest = new, left
    return zero


def _present(rows: Rows, least: int) -> tuple[bool, ...]:
    """Which coefficients are not zero in all groups, up to the last such one, or the first."""
    found = [any(column) for column in zip(*rows, strict=True)]
    while len(found) > least and not found[-1]:
        found.pop()
    return (*found[:-1], True) if found else ()


def _rest(c: Sequence[float], limit: float) -> float:
    """r of the polynomial ``c``: all its terms at L, in parts of the leading one."""
    *lower, leading = c
    if leading == 0:
        return math.inf
    return sum(abs(v / leading) * limit ** (j - len(lower)) for j, v in enumerate(lower))


def _short(x: Tensor, a: Tensor, b: Tensor, plan: Plan, spec: Spec) -> Tensor:
    """F; where the plan has values, z stands behind those of ``a`` and q behind those of ``b``."""
    dtype = reference.compute_dtype(x)
    wide = x if x.dtype == dtype else x.to(dtype)
    if spec.flags.per_term:
        b = b.abs()
    spread = [_spread(c, x, spec) for c in (a, b)]
    top, bottom = (
        [v if there else None for v, there in zip(c, present, strict=False)]
        for c, present in zip(spread, (plan.a, plan.b), strict=True)
    )
    Q: Tensor | float = spec.q
    below: list[Tensor | float | None] = [*[None] * (1 - spec.constant), *bottom]
    if plan.values:
        below[-1], Q = 1.0, spread[1][-1]
    m, n = len(top) - 1, len(below) - 1
    zero = spread[0][-1] if plan.values and plan.values.z else None
    k = 0 if zero is not None else max(m - n, 0)
    inner = wide.clamp(-plan.limit, plan.limit) if m and n else wide
    y = _horner(top[k:], inner, inner, 0)
    if n or spec.constant:
        z, outer = inner, wide
        if spec.flags.per_term:
            z, outer = inner.abs(), wide.abs() if n > m else wide
        A = _horner(below, z, outer, n - m)
        Q = (A.abs() if spec.flags.around else A) + Q
    y = y if isinstance(Q, float) and Q == 1 else y / Q
    if zero is not None:
        y = y * (wide - zero)
    for v in reversed(top[:k]):
        y = y * wide
        if v is not None:
            y = y + (v if isinstance(Q, float) and Q == 1 else v / Q)
    y = y if m or n else y + 0 * wide  # of the shape of x
    return y if y.dtype == x.dtype else y.to(x.dtype)


def _count(c: Tensor) -> int:
    return len(c.unbind(-1)) if torch.jit.is_tracing() else c.shape[-1]  # or a tensor


def _spread(c: Tensor, x: Tensor, spec: Spec) -> Sequence[Tensor]:
    """The coefficients one by one, in a shape that broadcasts against ``x``.

    Not without dims where ``x`` has some: the ONNX exporter's optimiser takes a number that is
    almost 0 or 1 for 0 or 1, at once 1e-5 off, but only of a tensor without dims.
    """
    dtype = reference.compute_dtype(x)
    c = c if c.dtype == dtype else c.to(dtype)
    if c.ndim == 1:
        return (c.unsqueeze(-1) if x.ndim else c).unbind()
    dim = spec.channel_dim % x.ndim
    channels, groups = x.shape[dim], c.shape[0]
    each = c.t().unsqueeze(-1).expand(-1, -1, channels // groups).reshape(-1, channels)
    if len(rows := each.unbind()) > 1:
        each = torch.stack(rows)  # which Inductor writes out, or it reads with a stride
    return each.reshape(len(rows), channels, *[1] * (x.ndim - dim - 1)).unbind()


def _horner(
    coefficients: Sequence[Tensor | float | None], inner: Tensor, outer: Tensor, lowest: int
) -> Any:
    """The polynomial in ``inner``, except for the ``lowest`` factors, which are ``outer``.

    A number is a leading coefficient of 1, None one of 0.
    """
    *lower, y = coefficients
    assert y is not None
    for i, c in reversed(list(enumerate(lower))):
        z = outer if i < lowest else inner
        y = y * z if isinstance(y, Tensor) else z
        y = y if c is None else y + c
    return y
