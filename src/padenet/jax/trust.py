"""The largest step that a unit may take: the rule of docs/stability.md on JAX arrays.

With x on a grid and weights w(x) = min(1, 3 / |x|) each step of a coefficient is measured by what
it does to F, the whole step is shortened until F moves by no more than ``most`` anywhere, and b_n
is kept beyond a tenth of its start.
"""

from functools import cache
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from padenet.core.forms import Spec

Array = Any
MOST = 0.01  # that F moves in one step, times 1 / w
REACH = 10.0  # inputs of real layers reach so far
FAR = (15.0, 25.0, 50.0, 100.0, 300.0, 1000.0)
INSIDE = 116  # points over [-REACH, REACH], so that there are 128 in all
NEAR = 3.0  # up to where w is 1
AT_MOST = 4.0  # times itself that a coefficient's step moves F
LEAST_CUT = 1e-4  # of a try
CUTS = 8  # tries to find t; a step for which that is not enough is not taken


class Grid(NamedTuple):
    """Powers of the points for P and for A, (terms, points) each, and the weights."""

    a: np.ndarray
    b: np.ndarray
    weight: np.ndarray
    inside: np.ndarray


@cache
def make_grid(degrees: tuple[int, int], spec: Spec) -> Grid:
    m, n = degrees
    far = np.array(FAR)
    x = np.concatenate([np.linspace(-REACH, REACH, INSIDE), -far, far])
    powers = x ** np.arange(max(m, n) + 1)[:, None]
    weight = np.minimum(NEAR / np.abs(x), 1.0)
    return Grid(powers[: m + 1], powers[1 - spec.constant : n + 1], weight, np.abs(x) <= REACH)


def hold(
    old: tuple[Array, Array],
    new: tuple[Array, Array],
    floor: Array,
    degrees: tuple[int, int],
    spec: Spec,
    most: float,
) -> tuple[Array, Array, Array]:
    """The step from ``old`` to ``new``, as far as it may go, for rows of coefficients: new ones,
    and whether it was cut (not: measured otherwise)."""
    dtype = jnp.float64 if old[0].dtype == jnp.float64 else jnp.float32
    grid = Grid(*(jnp.asarray(v, dtype) for v in make_grid(degrees, spec)))
    a, b = (c.astype(dtype) for c in old)
    da, db = (n.astype(dtype) - o for n, o in zip(new, (a, b), strict=True))
    Q = _denominator(b, grid.b, spec)
    F = _sum(a, grid.a) / Q
    rate_b = grid.weight * jnp.abs(F / Q)
    da = da / jnp.maximum(_reach(grid.weight / jnp.abs(Q), grid.a) / AT_MOST, 1.0)
    db = db / jnp.maximum(_reach(rate_b, grid.b) / AT_MOST, 1.0)
    t = _shorten(a, b, da, db, F, grid, spec, most)
    cut = t < 1
    t = t[:, None]
    a = jnp.where(t > 0, a + t * da, a)
    b = jnp.where(t > 0, b + t * db, b)
    if b.shape[1]:
        side = jnp.sign(floor)
        missing = (floor - b[:, -1]) * side
        low = (missing > 0) & (floor != 0)
        rate = rate_b * jnp.abs(grid.b[-1])
        rate = jnp.where((grid.inside > 0) & (rate == rate), rate, 0.0).max(1)
        step = jnp.minimum(missing, most / jnp.maximum(rate, 1e-30)) * side
        b = b.at[:, -1].add(jnp.where(low, step, 0.0))
        cut = cut | low
    return a, b, cut


def _shorten(
    a: Array, b: Array, da: Array, db: Array, F: Array, grid: Grid, spec: Spec, most: float
) -> Array:
    """The part of the step that may be taken, of each row: 1 for all of it."""
    P, dP = _sum(a, grid.a), _sum(da, grid.a)
    t = jnp.ones_like(P[:, 0])
    over = t < 0
    for _ in range(CUTS):
        moved = (P + t[:, None] * dP) / _denominator(b + t[:, None] * db, grid.b, spec) - F
        move = (grid.weight * jnp.abs(moved)).max(1)
        over = ~(move <= most)  # nan too
        part = jnp.nan_to_num(jnp.clip(0.99 * most / move, LEAST_CUT, 0.99), nan=LEAST_CUT)
        t = jnp.where(over, t * part, t)
    return jnp.where(over, 0.0, t)


def _sum(c: Array, powers: Array) -> Array:
    """In full precision, which a product of matrices may not have."""
    return (c[:, :, None] * powers).sum(1)


def _reach(weight: Array, powers: Array) -> Array:
    """max_x weight |x^k|, for each row and power."""
    return (weight[:, None] * jnp.abs(powers)).max(2)


def _denominator(b: Array, powers: Array, spec: Spec) -> Array:
    flags = spec.flags
    A = _sum(jnp.abs(b), jnp.abs(powers)) if flags.per_term else _sum(b, powers)
    return spec.q + (jnp.abs(A) if flags.around else A)
