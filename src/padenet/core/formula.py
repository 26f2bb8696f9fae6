r"""The Padé activation: the formula that every implementation is judged by, over any arrays.

    P(x) = a_0 + a_1 x + ... + a_m x^m
    A(x) =       b_1 x + ... + b_n x^n                  (constant: b_0 + b_1 x + ...)
    Q(x) = q + |A(x)|                                   (around; paper eq. 2)
         = 1 + |b_1 x| + ... + |b_n x^n|                (per_term)
         = 1 + A(x)                                     (neither; paper eq. 1)
    F(x) = P(x) / Q(x)

    dF/dx   =  P'/Q - s A' F/Q          s = sign(A), sign(0) = 0; s = 1 without absolute values
    dF/da_j =  x^j / Q
    dF/db_k = -x^k s F / Q              (per_term: -|x|^k sign(b_k) F / Q)

Everything is written in z = |x|: the sign of x moves into the odd coefficients, and for per_term
|b_k| replaces b_k. Above an edge, where powers of z would overflow, the same formula is taken in
numbers with exponents of their own (``padenet.core.scaled``): right up to the largest finite x, and
at x = inf the limit.

Shapes: ``a`` is ``(m + 1,)`` or ``(groups, m + 1)``, ``b`` is ``(n,)`` or ``(groups, n)``, one more
with a constant. Arrays are of one float dtype, in which all is computed.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from padenet.core.forms import Spec
from padenet.core.scaled import NOTHING, Scaled, polynomial

Array = Any
Number = Any  # Array | Scaled, which know the same operations
_SUM_ROW = 1024


def sum_of_rows(rows: Array) -> Array:
    """Of each row, in an order that no thread count changes."""
    rest: Any = 0.0
    while (count := rows.shape[1]) > _SUM_ROW:
        whole = count // _SUM_ROW * _SUM_ROW
        rest = rest + rows[:, whole:].sum(1)
        rows = rows[:, :whole].reshape(len(rows), -1, _SUM_ROW).sum(2)
    return rows.sum(1) + rest


class Arrays(NamedTuple):
    """What is asked of an array library: NumPy's functions, and what those leave open."""

    xp: Any
    move: Callable[[Array, int, int], Array]  # an axis to another place
    widen: Callable[[Array], Array]  # to the dtype in which sums are taken
    hold: Callable[[Array], Array]  # a constant for derivatives
    none_of: Callable[[Array], bool]  # whether none is true, where values may decide what is done
    sum: Callable[[Array], Array] = sum_of_rows


def edge(xp: Any, a: Sequence[Array], d: Sequence[Array], q: float) -> Array:
    """Up to this |x| nothing overflows; -1 where it might at any x. ``d[0]`` is d_0.

    P, Q and their derivatives stay below q 2^60 (float64: q 2^480) there, so that A' F/Q, the
    largest product of them, stays below 2^120 (2^960).
    """
    room = 480 if xp.finfo(a[0].dtype).bits == 64 else 60
    small = 2.0**-10  # or the sums might overflow
    top: Any = sum(small * max(j, 1) * xp.abs(c) for j, c in enumerate(a))
    bottom: Any = small + sum(small * max(k, 1) * xp.abs(c) for k, c in enumerate(d))
    spare = room - 10 - xp.log2(xp.maximum(top, bottom) / q)
    limit = xp.exp2(xp.floor(spare / max(len(a) - 1, len(d) - 1, 1)))
    limit = xp.where(spare < 0, -1.0, limit)
    return xp.where(xp.isfinite(top + bottom), limit, math.inf)


class Unit:
    """``x`` viewed as ``(..., groups, channels of a group, ...)`` beside its coefficients.

    ``sides`` are the formula below the edge and above it, where there is an x; what they give for
    an x of the other side has no meaning. A derivative takes the factor that it is multiplied by.
    Noise is a constant factor of the coefficient it multiplies, and the gradient of the noisy
    coefficient is that of the coefficient itself.

    Args:
        noise: An array like ``x`` in (-1, 1) for each coefficient, or None.
    """

    def __init__(
        self,
        arrays: Arrays,
        x: Array,
        a: Array,
        b: Array,
        spec: Spec,
        noise: Sequence[Array] | None = None,
    ):
        self.arrays, self.xp = arrays, arrays.xp
        self.groups = a.shape[0] if a.ndim == 2 else None
        self.dim = spec.channel_dim % x.ndim if self.groups else 0
        self.spec, self.shape = spec, x.shape
        self.x = self.view(x)

        coefficients = self.spread(a)
        count = len(coefficients)
        coefficients += self.spread(b)
        if noise is not None:
            coefficients = [
                c + arrays.hold(c * (spec.alpha * self.view(u)))
                for c, u in zip(coefficients, noise, strict=True)
            ]
        self.a, self.b = coefficients[:count], coefficients[count:]

        one = self.xp.ones_like(self.x)
        self.sign = self.xp.where(self.x < 0, -one, one)
        fold = [one, self.sign]
        top = [c * fold[j % 2] for j, c in enumerate(self.a)]
        first = 1 - spec.constant  # the power that b[0] multiplies
        if spec.flags.per_term:
            bottom = [self.xp.abs(c) for c in self.b]
        else:
            bottom = [c * fold[k % 2] for k, c in enumerate(self.b, first)]
        bottom = [self.xp.zeros_like(self.x)] * first + bottom
        nothing = [self.xp.zeros_like(self.a[0])] * first
        limit = edge(self.xp, self.a, nothing + self.b, spec.q)
        self.far, self.sides = _sides(arrays, self.sign * self.x, limit, top, bottom, spec)

    def F(self) -> Array:
        return self.restore(self.join([side.F for side in self.sides]))

    def gradients(self, dy: Array) -> tuple[Array, Array, Array]:
        """Of ``sum(dy * F(x))`` with respect to x, a and b; None where there is none of b."""
        g = self.view(dy)
        dx = self.restore(self.join(self.slope(g)))
        lift, small = self.lower(g)
        found = [self.sums(self.da(g, j, small)) for j in range(len(self.a))]
        found += [self.sums(self.db(g, i, small)) for i in range(len(self.b))]
        totals, count = self.total(found, lift), len(self.a)
        totals = totals if self.groups else totals[0]
        return dx, totals[..., :count], totals[..., count:] if self.b else None

    def change(self, dx: Array | None, da: Array | None, db: Array | None) -> Array:
        """The change of ``F(x)`` along ``(dx, da, db)``; None stands for zero."""
        dy = self.xp.zeros_like(self.x)
        if dx is not None:
            dy = self.join(self.slope(self.view(dx)))
        for j, c in enumerate(() if da is None else self.spread(da)):
            dy = dy + self.join(self.da(c, j))
        for i, c in enumerate(() if db is None else self.spread(db)):
            dy = dy + self.join(self.db(c, i))
        return self.restore(dy)

    def view(self, x: Array) -> Array:
        if not self.groups:
            return x
        before, channels, after = x.shape[: self.dim], x.shape[self.dim], x.shape[self.dim + 1 :]
        return x.reshape(*before, self.groups, channels // self.groups, *after)

    def restore(self, y: Array) -> Array:
        return y.reshape(self.shape) if self.groups else y

    def spread(self, c: Array) -> list[Array]:
        """Each coefficient in a shape that broadcasts against ``self.x``."""
        return [self.spread_one(v) for v in self.arrays.move(c, -1, 0)]

    def spread_one(self, v: Array) -> Array:
        return v.reshape(self.groups, *[1] * (self.x.ndim - self.dim - 1)) if self.groups else v

    def slope(self, g: Array) -> list[Number]:
        return [_times(side.slope(), g * self.sign) for side in self.sides]

    def da(self, g: Array, j: int, near: Array | None = None) -> list[Number]:
        """``g``, below the edge ``near`` if it is given, times the derivative by ``a[j]``."""
        factors = (g if near is None else near, g)
        return [
            _times(side.da(j), f * self.sign if j % 2 else f)
            for side, f in zip(self.sides, factors, strict=False)
        ]

    def db(self, g: Array, i: int, near: Array | None = None) -> list[Number]:
        k = i + 1 - self.spec.constant
        if self.spec.flags.per_term:
            sign: Array | float = self.xp.sign(self.b[i])
        else:
            sign = self.sign if k % 2 else 1.0
        factors = (g if near is None else near, g)
        return [_times(side.db(k, sign), f) for side, f in zip(self.sides, factors, strict=False)]

    def join(self, found: Sequence[Number]) -> Array:
        """Each element from its own side."""
        values = [v.value() if isinstance(v, Scaled) else v for v in found]
        return values[0] if len(values) == 1 else self.xp.where(self.far, values[1], values[0])

    def lower(self, g: Array) -> tuple[Array, Array]:
        """An exponent for each group, and ``g`` divided by 2 to it, of which no product overflows.

        In float64, where there is one, those of float32 never do.
        """
        xp, wide = self.xp, self.arrays.widen(g)
        rows = self.rows(xp.abs(g))
        if wide.dtype != g.dtype or 0 in rows.shape:
            return rows[:, :0].sum(1), wide
        lift = xp.ceil(xp.log2(xp.clip(xp.amax(rows, axis=1), 1.0, None)))
        most = 1000.0 if xp.finfo(g.dtype).bits == 64 else 120.0  # so that 2^-lift is normal
        lift = xp.where(xp.isfinite(lift), xp.clip(lift, 0.0, most), 0.0)
        factor = xp.exp2(-lift)
        return lift, g * (self.spread_one(factor) if self.groups else factor)

    def rows(self, v: Array) -> Array:
        """All that shares a coefficient in a row."""
        groups = self.groups or 1
        v = self.arrays.move(v, self.dim, 0) if self.groups else v
        return v.reshape(groups, math.prod(v.shape) // groups)

    def sums(self, found: Sequence[Number]) -> list[Array]:
        """Over all that shares a coefficient: of the near terms; of the far ones, with exponent."""
        xp, widen, sum_of = self.xp, self.arrays.widen, self.arrays.sum
        near, *far = found
        if far:
            near = xp.where(self.far, 0.0, near)
        sums = [sum_of(self.rows(widen(near)))]
        for v in far:
            e = self.rows(widen(xp.where(self.far, v.e, NOTHING)))
            top = xp.amax(e, axis=1) if e.shape[1] else e.sum(1)
            f = self.rows(widen(v.f)) * xp.exp2(e - top[:, None])
            sums += [sum_of(f), top]
        return sums

    def total(self, found: Sequence[list[Array]], lift: Array) -> Array:
        """The sums of each coefficient together, times 2^lift, terms of any size."""
        near, *far = (self.xp.stack(list(sums), -1) for sums in zip(*found, strict=True))
        total = Scaled(self.xp, near, self.arrays.widen(lift)[:, None])
        if far:
            total = total + Scaled(self.xp, *far)
        return total.value()


def _times(v: Number, g: Array) -> Number:
    return v * Scaled(v.xp, g) if isinstance(v, Scaled) else g * v


def _scale(v: Number, t: Array | float) -> Number:
    return v.times(t) if isinstance(v, Scaled) else v * t


class _Quotient:
    """The formula at ``z``, in numbers of its kind."""

    def __init__(self, xp: Any, z: Any, a: Sequence[Any], d: Sequence[Any], spec: Spec):
        flags = spec.flags
        scaled = isinstance(z, Scaled)
        self.z, self.a, self.d, self.per_term = z, a, d, flags.per_term
        self.polynomial: Any = polynomial if scaled else lambda c, z: _horner(xp, c, z)
        A: Any = self.polynomial(d, z)
        # For per_term the derivative of |x|: A may underflow to 0 before z does.
        signed = z if flags.per_term else A
        self.s: Any = 1.0
        if flags.per_term or flags.around:
            self.s = signed.sign() if scaled else xp.sign(signed)
            A = A.abs() if scaled else xp.abs(A)
        self.Q: Any = A + spec.q
        self.F: Any = self.polynomial(a, z) / self.Q

    def slope(self) -> Any:
        slopes = ([_scale(v, j) for j, v in enumerate(c)][1:] for c in (self.a, self.d))
        dP, dA = (self.polynomial(c, self.z) for c in slopes)
        return (dP - _scale(dA * self.F, self.s)) / self.Q

    def da(self, j: int) -> Any:
        return self.z**j / self.Q

    def db(self, k: int, sign: Array | float) -> Any:
        """With the sign first: where it is 0, the rest may overflow."""
        s = 1.0 if self.per_term else self.s
        return _scale(_scale(self.z**k, -1.0 * s), sign) * (self.F / self.Q)


def _sides(
    arrays: Arrays, z: Array, limit: Array, a: Sequence[Array], d: Sequence[Array], spec: Spec
) -> tuple[Any, list[_Quotient]]:
    """Which elements are far, and the formula for the near ones and, if there are any, those."""
    xp = arrays.xp
    far = z > limit
    if arrays.none_of(far):
        return far, [_Quotient(xp, z, a, d, spec)]
    hopeless = limit < 0
    kept = [[xp.where(hopeless, 0.0, v) for v in c] for c in (a, d)]
    wide = [[Scaled(xp, v) for v in c] for c in (a, d)]
    return far, [
        _Quotient(xp, xp.where(far, 0.0, z), kept[0], kept[1], spec),
        _Quotient(xp, Scaled(xp, xp.where(far, z, 1.0)), wide[0], wide[1], spec),
    ]


def _horner(xp: Any, coefficients: Sequence[Array], z: Array) -> Array:
    y = xp.zeros_like(z)
    for c in reversed(coefficients):
        y = y * z + c
    return y
