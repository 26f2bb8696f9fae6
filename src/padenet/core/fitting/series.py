"""``pade``: the Padé approximant of a series, in exact arithmetic."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any


def pade(
    series: Sequence[Any], m: int, n: int
) -> tuple[tuple[Fraction, ...], tuple[Fraction, ...]]:
    """The Padé approximant [m/n] at 0, exactly: f Q - P = O(x^(m + n + 1)) with Q(0) = 1.

    Args:
        series: Taylor coefficients c_0, c_1, ... of f, at least m + n + 1 of them: whole numbers,
            fractions, text such as "1/3", or floats (taken at their exact binary value).
        m, n: Degrees of P and Q.

    Returns:
        a_0 ... a_m and b_1 ... b_n of F = P / Q in the form "free".

    Raises:
        ValueError: No approximant exists, as for [1/1] of 1 + x^2.
    """
    for name, degree in (("m", m), ("n", n)):
        if not isinstance(degree, int) or degree < 0:
            raise ValueError(f"{name}={degree!r} must be a whole number from 0 on.")
    need = m + n + 1
    if len(series) < need:
        raise ValueError(
            f"series has {len(series)} terms, but [{m}/{n}] needs m + n + 1 = {need} of them, "
            f"c_0 to c_{need - 1}."
        )
    c = [_fraction(v, i) for i, v in enumerate(series[:need])]
    term = lambda i: c[i] if i >= 0 else Fraction(0)
    rows = [[term(i - k) for k in range(1, n + 1)] + [-c[i]] for i in range(m + 1, need)]
    pivots: list[int] = []
    for k in range(n):  # elimination; a column without pivot is a b_k that may be 0
        top = len(pivots)
        pivot = next((i for i in range(top, n) if rows[i][k]), None)
        if pivot is None:
            continue
        rows[top], rows[pivot] = rows[pivot], rows[top]
        rows[top] = [v / rows[top][k] for v in rows[top]]
        for i in range(n):
            if i != top and rows[i][k]:
                rows[i] = [v - rows[i][k] * w for v, w in zip(rows[i], rows[top], strict=True)]
        pivots.append(k)
    if any(row[n] for row in rows[len(pivots) :]):
        raise ValueError(
            f"the series has no Padé approximant [{m}/{n}]: no Q with Q(0) = 1 makes f Q - P of "
            f"order {need}. Try other degrees, e.g. [{m + 1}/{n}] or [{m}/{max(n - 1, 0)}]."
        )
    b = [Fraction(0)] * n
    for row, k in zip(rows, pivots, strict=False):
        b[k] = row[n]
    Q = [Fraction(1), *b]
    a = (sum((term(j - k) * v for k, v in enumerate(Q)), Fraction(0)) for j in range(m + 1))
    return tuple(a), tuple(b)


def _fraction(value: Any, i: int) -> Fraction:
    try:
        return Fraction(value)
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        raise ValueError(
            f"series[{i}]={value!r} is not a finite number. Give an int, Fraction, '1/3' or float."
        ) from None
