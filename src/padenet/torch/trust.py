r"""The largest step that a unit may take: a trust region in the space of functions.

An optimiser proposes new coefficients c + d. What counts is how far F moves by that, where its
inputs live and far beyond. So with x on a grid and weights w(x) = min(1, 3 / |x|):

1.  Each d_k is measured by what it does to F:

        d_k  ->  d_k / max(1, s_k / 4)        s_k = max_x w(x) |dF/dc_k (x)|

    In powers of x the coefficients are unlike: x^5 / Q is below 1 near 0 and thousands far out.
    Measured so, a step of 0.001 moves F by 0.004 at most, whichever coefficient takes it.

2.  The whole step is shortened until F moves by no more than ``most`` anywhere:

        d  ->  t d        the greatest t <= 1 with max_x w(x) |F(x; c + t d) - F(x; c)| <= most

3.  b_n is kept at a tenth of its start, or beyond it, for the forms in which A may pass 0 far out
    (Q falls to its constant there, and F is as large as P). The second rule alone never lets it
    through, since F would move without bound on the way. A unit that comes from elsewhere with
    such a b_n is led back, in steps that move F by ``most`` within ±10.

The far points of the grid are what bounds the tails, on which no data pulls.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from padenet.core.forms import Spec

MOST = 0.01  # that F moves in one step, times 1 / w
REACH = 10.0  # inputs of real layers reach so far
FAR = (15.0, 25.0, 50.0, 100.0, 300.0, 1000.0)
INSIDE = 116  # points over [-REACH, REACH], so that there are 128 in all
NEAR = 3.0  # up to where w is 1
AT_MOST = 4.0  # times itself that a coefficient's step moves F
FLOOR = 0.1  # part of the start's b_n that a unit keeps
LEAST_CUT = 1e-4  # of a try
CUTS = 8  # tries to find t; a step for which that is not enough is not taken
ROWS = 512  # units computed at a time: memory


class Grid(NamedTuple):
    """Powers of the points for P and for A, (terms, points) each, and the weights."""

    a: Tensor
    b: Tensor
    weight: Tensor
    inside: Tensor


class Memory(NamedTuple):
    """Where a kernel that holds the steps of units of one kind finds them, and what else it needs.

    ``addresses`` are int64 (rows, 2): where a and b of each row lie. ``old`` has the coefficients
    before the step, (rows, terms) each, of their dtype. ``counts`` are int64 (3, rows): steps,
    held, since.
    """

    addresses: Tensor
    old: tuple[Tensor, Tensor]
    least: Tensor
    grid: Grid
    counts: Tensor
    spec: Spec
    most: float


class Held(NamedTuple):
    """New coefficients, and whether the step was shortened (not: measured otherwise)."""

    a: Tensor
    b: Tensor
    cut: Tensor


def make_grid(degrees: tuple[int, int], spec: Spec, device: torch.device) -> Grid:
    m, n = degrees
    x = torch.linspace(-REACH, REACH, INSIDE, dtype=torch.float64)
    far = torch.tensor(FAR, dtype=torch.float64)
    x = torch.cat([x, -far, far])
    powers = x ** torch.arange(max(m, n) + 1)[:, None]
    weight = (NEAR / x.abs()).clamp(max=1.0)
    parts = powers[: m + 1], powers[1 - spec.constant : n + 1], weight, (x.abs() <= REACH).double()
    return Grid(*(part.to(device) for part in parts))


def hold(
    old: tuple[Tensor, Tensor],
    new: tuple[Tensor, Tensor],
    least: Tensor,
    grid: Grid,
    spec: Spec,
    most: float,
) -> Held:
    """The step from ``old`` to ``new``, as far as it may go, for rows of coefficients in float64.

    Args:
        least: What b_n is kept beyond, with its sign; 0 for no limit.
    """
    if len(least) > ROWS:
        parts = [t.split(ROWS) for t in (*old, *new, least)]
        rows = zip(*parts, strict=True)
        held = [hold((a, b), (c, d), e, grid, spec, most) for a, b, c, d, e in rows]
        return Held(*(torch.cat(part) for part in zip(*held, strict=True)))
    (a, b), (da, db) = old, (n - o for n, o in zip(new, old, strict=True))
    P, Q = a @ grid.a, _denominator(b, grid.b, spec)
    F = P / Q
    rate_a = _reach(grid.weight / Q.abs(), grid.a)
    rate_b = _reach(grid.weight * (F / Q).abs(), grid.b)
    da, db = (d / (r / AT_MOST).clamp(min=1.0) for d, r in ((da, rate_a), (db, rate_b)))
    t = shorten((a, b), (da, db), grid, spec, most)
    cut = t < 1
    t = t[:, None]
    a = torch.where(t > 0, a + t * da, a)
    b = torch.where(t > 0, b + t * db, b)
    if b.shape[1]:
        missing = (least - b[:, -1]) * least.sign()
        low = (missing > 0) & (least != 0)
        if low.device.type == "cpu" and not low.any():
            return Held(a, b, cut)
        rate = grid.weight * (F / Q).abs() * grid.b[-1].abs()
        rate = torch.where((grid.inside > 0) & (rate == rate), rate, 0.0).amax(1)
        step = torch.minimum(missing, most / rate.clamp(min=1e-30)).clamp(min=0.0) * least.sign()
        b = torch.cat([b[:, :-1], (b[:, -1] + torch.where(low, step, 0.0))[:, None]], 1)
        cut = cut | low
    return Held(a, b, cut)


def shorten(
    c: tuple[Tensor, Tensor], d: tuple[Tensor, Tensor], grid: Grid, spec: Spec, most: float
) -> Tensor:
    """The part of the step ``d`` from ``c`` that may be taken, of each row: 1 for all of it."""
    (a, b), (da, db) = c, d
    P, dP = a @ grid.a, da @ grid.a
    F = P / _denominator(b, grid.b, spec)
    t = torch.ones_like(P[:, 0])
    for _ in range(CUTS):
        moved = (P + t[:, None] * dP) / _denominator(b + t[:, None] * db, grid.b, spec) - F
        move = (grid.weight * moved.abs()).amax(1)
        over = ~(move <= most)  # nan too
        if over.device.type == "cpu" and not over.any():
            return t
        t = torch.where(
            over, t * (0.99 * most / move).clamp(LEAST_CUT, 0.99).nan_to_num(LEAST_CUT), t
        )
    return torch.where(over, 0.0, t)


def _reach(weight: Tensor, powers: Tensor) -> Tensor:
    """max_x weight |x^k|, for each row and power."""
    return (weight[:, None] * powers.abs()).amax(2)


def _denominator(b: Tensor, powers: Tensor, spec: Spec) -> Tensor:
    A = b.abs() @ powers.abs() if spec.flags.per_term else b @ powers
    return spec.q + (A.abs() if spec.flags.around else A)
