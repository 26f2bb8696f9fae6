"""Real zeros of polynomials on an interval, coefficients from the constant term on."""

import numpy as np

Array = np.ndarray
EPS = float(np.finfo(float).eps)
NEAR = 1e-7  # zeros closer than this part of the interval's size count as one


def value(c: Array, x: Array | float) -> Array:
    y = np.zeros_like(np.asarray(x, float))
    for v in c[::-1]:
        y = y * x + v
    return y


def derivative(c: Array) -> Array:
    return c[1:] * np.arange(1, len(c)) if len(c) > 1 else np.zeros(1)


def add(c: Array, d: Array) -> Array:
    out = np.zeros(max(len(c), len(d)))
    out[: len(c)] += c
    out[: len(d)] += d
    return out


def cross(c: Array, d: Array, times: int = 1) -> Array:
    """c' d - times · c d', with 0 for coefficients that are nothing but rounding."""
    first, second = (derivative(c), d), (c, times * derivative(d))
    exact = add(np.convolve(*first), -np.convolve(*second))
    size = add(*(np.convolve(np.abs(u), np.abs(v)) for u, v in (first, second)))
    return np.where(np.abs(exact) <= len(size) * EPS * size, 0.0, exact)


def sign_between(c: Array, low: float, high: float) -> float:
    """The sign on an interval on which it does not change, whatever single points it touches."""
    x = low + (high - low) * np.array([0.19, 0.5, 0.83])
    return float(np.sign(value(c, x).sum()))


def crossings(c: Array, low: float, high: float) -> Array:
    """Where the polynomial changes its sign between ``low`` and ``high``, in order.

    Between two neighbouring sign changes of its derivative it is monotone and crosses zero at most
    once, so every crossing is bracketed; Newton's steps, with bisection as a guard, close in on it.
    """
    c = np.trim_zeros(c, "b")
    if len(c) < 2:
        return np.empty(0)
    slope = derivative(c)
    ends = np.array([low, *crossings(slope, low, high), high])
    signs = np.sign(value(c, ends))
    ends, signs = ends[signs != 0], signs[signs != 0]
    change = np.flatnonzero(signs[:-1] != signs[1:])
    left, right, rising = ends[change], ends[change + 1], signs[change + 1]
    tolerance = EPS * max(abs(low), abs(high))
    x = (left + right) / 2
    for i in range(200):
        y = value(c, x)
        left, right = np.where(y * rising <= 0, x, left), np.where(y * rising >= 0, x, right)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            step = x - y / value(slope, x)
        guarded = (step > left) & (step < right) & (i % 3 < 2)
        moved = np.where(guarded, step, (left + right) / 2)
        done = np.abs(moved - x) <= tolerance
        x = moved
        if done.all():
            break
    return np.where(np.abs(x) <= 4 * tolerance, 0.0, x)


def zeros(c: Array, low: float, high: float) -> list[float]:
    """The zeros on [low, high], those included where the polynomial touches zero."""
    if not c.any():
        return []
    turns = np.array([low, *crossings(derivative(c), low, high), high])
    found = np.sort([*crossings(c, low, high), *turns[vanishes(c, turns)]])
    size = NEAR * max(abs(low), abs(high))
    kept: list[float] = []
    for x in found.tolist():
        if not kept or x - kept[-1] > size:
            kept.append(x)
    return kept


def vanishes(c: Array, x: Array | float) -> Array:
    """Whether the value at x is zero as far as rounding lets one see."""
    return np.abs(value(c, x)) <= 4 * len(c) * EPS * value(np.abs(c), np.abs(x))
