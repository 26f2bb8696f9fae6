r"""The Padé activation in plain PyTorch: the formula that every kernel is judged by.

    P(x) = a_0 + a_1 x + ... + a_m x^m
    A(x) =       b_1 x + ... + b_n x^n                  (offset: b_0 + b_1 x + ...)
    Q(x) = q + |A(x)|                                   (safe, offset; paper eq. 2)
         = 1 + |b_1 x| + ... + |b_n x^n|                (abs_terms)
         = 1 + A(x)                                     (free; paper eq. 1)
    F(x) = P(x) / Q(x)

    dF/dx   =  P'/Q - s A' F/Q          s = sign(A), sign(0) = 0; s = 1 for free
    dF/da_j =  x^j / Q
    dF/db_k = -x^k s F / Q              (abs_terms: -|x|^k sign(b_k) F / Q)

Everything is written in z = |x|: the sign of x moves into the odd coefficients, and for abs_terms
|b_k| replaces b_k. Above an edge, where powers of z would overflow, the same formula is taken in
numbers with exponents of their own (``padenet.core.scaled``): right up to the largest finite x, and
at x = inf the limit.

Shapes: ``a`` is ``(m + 1,)`` or ``(groups, m + 1)``, ``b`` is ``(n,)`` or ``(groups, n)``.
float64 computes in float64, every other dtype in float32. Works under every torch transform.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from padenet.core.forms import Spec
from padenet.core.noise import uniform
from padenet.core.scaled import NOTHING, Scaled, polynomial
from padenet.torch.tracing import is_plain

_SUM_ROW = 1024


def compute_dtype(x: Tensor) -> torch.dtype:
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def edge(a: Sequence[Tensor], d: Sequence[Tensor], spec: Spec) -> Tensor:
    """Up to this |x| nothing overflows; -1 where it might at any x. ``d[0]`` is d_0.

    P, Q and their derivatives stay below q 2^60 (float64: q 2^480) there, so that A' F/Q, the
    largest product of them, stays below 2^120 (2^960).
    """
    room = 480 if a[0].dtype == torch.float64 else 60
    small = 2.0**-10  # or the sums might overflow
    top: Any = sum(small * max(j, 1) * c.abs() for j, c in enumerate(a))
    bottom: Any = small + sum(small * max(k, 1) * c.abs() for k, c in enumerate(d))
    spare = room - 10 - (torch.maximum(top, bottom) / spec.q).log2()
    limit = torch.exp2((spare / max(len(a) - 1, len(d) - 1, 1)).floor())
    limit = torch.where(spare < 0, -1.0, limit)
    return torch.where((top + bottom).isfinite(), limit, torch.inf)


def forward(x: Tensor, a: Tensor, b: Tensor, key: Tensor | None, spec: Spec) -> Tensor:
    unit = _Unit(x, a, b, key, spec)
    return unit.restore(unit.join([side.F for side in unit.sides])).to(x.dtype)


def backward(
    dy: Tensor, x: Tensor, a: Tensor, b: Tensor, key: Tensor | None, spec: Spec
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of ``sum(dy * F(x))`` with respect to ``x``, ``a`` and ``b``.

    Noise is a constant factor of the coefficient it multiplies, and the gradient of the noisy
    coefficient is that of the coefficient itself.
    """
    unit = _Unit(x, a, b, key, spec)
    g = unit.view(dy)
    dx = unit.restore(unit.join(unit.slope(g))).to(x.dtype)
    lift, small = unit.lower(g)
    da = [unit.total(unit.da(g, j, small), lift) for j in range(a.shape[-1])]
    db = [unit.total(unit.db(g, i, small), lift) for i in range(b.shape[-1])]
    return dx, _stack(da, a), _stack(db, b)


def jvp(
    dx: Tensor | None,
    da: Tensor | None,
    db: Tensor | None,
    x: Tensor,
    a: Tensor,
    b: Tensor,
    key: Tensor | None,
    spec: Spec,
) -> Tensor:
    """The change of ``F(x)`` along ``(dx, da, db)``; None stands for zero."""
    unit = _Unit(x, a, b, key, spec)
    dy = torch.zeros_like(unit.x) if dx is None else unit.join(unit.slope(unit.view(dx)))
    for j, c in enumerate(() if da is None else unit.spread(da)):
        dy = dy + unit.join(unit.da(c, j))
    for i, c in enumerate(() if db is None else unit.spread(db)):
        dy = dy + unit.join(unit.db(c, i))
    return unit.restore(dy).to(x.dtype)


class _Unit:
    """``x`` viewed as ``(..., groups, channels of a group, ...)`` beside its coefficients.

    ``sides`` are the formula below the edge and above it, where there is an x; what they give for
    an x of the other side has no meaning. A derivative takes the factor that it is multiplied by.
    """

    def __init__(self, x: Tensor, a: Tensor, b: Tensor, key: Tensor | None, spec: Spec):
        self.dtype = compute_dtype(x)
        self.wide = torch.float32 if x.device.type == "mps" else torch.float64  # it has none
        self.groups = a.shape[0] if a.ndim == 2 else None
        self.dim = spec.channel_dim % x.ndim if self.groups else 0
        self.spec, self.shape = spec, x.shape
        self.x = self.view(x)

        coefficients = [*self.spread(a), *self.spread(b)]
        if key is not None:
            noise = uniform(key, x.shape, len(coefficients), x.device)
            coefficients = [
                c + (c * (spec.alpha * self.view(u))).detach()
                for c, u in zip(coefficients, noise, strict=True)
            ]
        self.a = coefficients[: a.shape[-1]]
        self.b = coefficients[a.shape[-1] :]

        self.sign = torch.where(self.x < 0, -1.0, 1.0).to(self.dtype)
        fold = [self.sign**j for j in range(2)]
        top = [c * fold[j % 2] for j, c in enumerate(self.a)]
        first = 1 - spec.constant  # the power that b[0] multiplies
        if spec.form == "abs_terms":
            bottom = [c.abs() for c in self.b]
        else:
            bottom = [c * fold[k % 2] for k, c in enumerate(self.b, first)]
        bottom = [torch.zeros_like(self.x)] * first + bottom
        limit = edge(self.a, [torch.zeros_like(self.a[0])] * first + self.b, spec)
        self.far, self.sides = _sides(self.sign * self.x, limit, top, bottom, spec)

    def view(self, x: Tensor) -> Tensor:
        x = x.to(self.dtype)
        if not self.groups:
            return x
        before, channels, after = x.shape[: self.dim], x.shape[self.dim], x.shape[self.dim + 1 :]
        return x.reshape(*before, self.groups, channels // self.groups, *after)

    def restore(self, y: Tensor) -> Tensor:
        return y.reshape(self.shape) if self.groups else y

    def spread(self, c: Tensor) -> list[Tensor]:
        """Each coefficient in a shape that broadcasts against ``self.x``."""
        c = c.to(self.dtype)
        return [self.spread_one(v) for v in c.unbind(-1)]

    def spread_one(self, v: Tensor) -> Tensor:
        return v.reshape(self.groups, *[1] * (self.x.ndim - self.dim - 1)) if self.groups else v

    def slope(self, g: Tensor) -> list["Number"]:
        return [_times(side.slope(), g * self.sign) for side in self.sides]

    def da(self, g: Tensor, j: int, near: Tensor | None = None) -> list["Number"]:
        """``g``, below the edge ``near`` if it is given, times the derivative by ``a[j]``."""
        factors = (g if near is None else near, g)
        return [
            _times(side.da(j), f * self.sign if j % 2 else f)
            for side, f in zip(self.sides, factors, strict=False)
        ]

    def db(self, g: Tensor, i: int, near: Tensor | None = None) -> list["Number"]:
        k = i + 1 - self.spec.constant
        if self.spec.form == "abs_terms":
            sign: Tensor | float = self.b[i].sign()
        else:
            sign = self.sign if k % 2 else 1.0
        factors = (g if near is None else near, g)
        return [_times(side.db(k), f * sign) for side, f in zip(self.sides, factors, strict=False)]

    def join(self, found: Sequence["Number"]) -> Tensor:
        """Each element from its own side."""
        values = [v.value() if isinstance(v, Scaled) else v for v in found]
        return values[0] if len(values) == 1 else torch.where(self.far, values[1], values[0])

    def lower(self, g: Tensor) -> tuple[Tensor, Tensor]:
        """An exponent for each group, and ``g`` divided by 2 to it, of which no product overflows.

        In float64, where there is one, those of float32 never do.
        """
        rows = self.rows(g.abs())
        if self.wide != self.dtype or not rows.numel():
            return g.new_zeros(rows.shape[0]), g.to(self.wide)
        lift = rows.amax(1).clamp(min=1.0).log2().ceil()
        lift = torch.where(lift.isfinite(), lift, 0.0)
        factor = torch.exp2(-lift)
        return lift, g * (self.spread_one(factor) if self.groups else factor)

    def rows(self, v: Tensor) -> Tensor:
        """All that shares a coefficient in a row."""
        groups = self.groups or 1
        return (v.movedim(self.dim, 0) if self.groups else v).reshape(groups, v.numel() // groups)

    def total(self, found: Sequence["Number"], lift: Tensor) -> Tensor:
        """The sum over all that shares a coefficient, times 2^lift, terms of any size."""
        near, *far = found
        if far:
            near = torch.where(self.far, 0.0, near)
        sums = Scaled(_sum(self.rows(near).to(self.wide)), lift.to(self.wide))
        for v in far:
            e = self.rows(torch.where(self.far, v.e, NOTHING)).to(self.wide)
            top = e.amax(1, keepdim=True) if e.shape[1] else e.sum(1, keepdim=True)
            f = self.rows(v.f).to(self.wide) * torch.exp2(e - top)
            sums = sums + Scaled(_sum(f), top[:, 0])
        return sums.value()


def _sum(rows: Tensor) -> Tensor:
    """Of each row, in an order that no thread count changes."""
    while rows.shape[1] > _SUM_ROW:
        rows = torch.nn.functional.pad(rows, (0, -rows.shape[1] % _SUM_ROW))
        rows = rows.reshape(len(rows), -1, _SUM_ROW).sum(2)
    return rows.sum(1)


def _stack(sums: Sequence[Tensor], like: Tensor) -> Tensor:
    if not sums:
        return torch.zeros_like(like)
    return torch.stack(list(sums), -1).reshape(like.shape).to(like.dtype)


Number = Any  # Tensor | Scaled, which know the same operations


def _times(v: Number, g: Tensor) -> Number:
    return v * Scaled(g) if isinstance(v, Scaled) else g * v


def _scale(v: Number, t: Tensor | float) -> Number:
    return v.times(t) if isinstance(v, Scaled) else v * t


class _Quotient:
    """The formula at ``z``, in numbers of its kind."""

    def __init__(self, z: Any, a: Sequence[Any], d: Sequence[Any], spec: Spec):
        self.z: Any = z
        self.a, self.d = a, d
        self.polynomial: Any = polynomial if isinstance(z, Scaled) else _horner
        A: Any = self.polynomial(d, z)
        # For abs_terms the derivative of |x|: A may underflow to 0 before z does.
        self.s = 1.0 if spec.form == "free" else (z if spec.form == "abs_terms" else A).sign()
        self.Q: Any = (A if spec.form == "free" else A.abs()) + spec.q
        self.F: Any = self.polynomial(a, z) / self.Q

    def slope(self) -> Any:
        slopes = ([_scale(v, j) for j, v in enumerate(c)][1:] for c in (self.a, self.d))
        dP, dA = (self.polynomial(c, self.z) for c in slopes)
        return (dP - _scale(dA * self.F, self.s)) / self.Q

    def da(self, j: int) -> Any:
        return self.z**j / self.Q

    def db(self, k: int) -> Any:
        return _scale(self.z**k * (self.F / self.Q), -1.0 * self.s)


def _sides(
    z: Tensor, limit: Tensor, a: Sequence[Tensor], d: Sequence[Tensor], spec: Spec
) -> tuple[Any, list[_Quotient]]:
    """Which elements are far, if there are any, and the formula for the near and the far ones."""
    far = z > limit
    can_look = z.device.type == "cpu" and is_plain(z) and not torch.compiler.is_compiling()
    if can_look and not bool(far.any()):
        return None, [_Quotient(z, a, d, spec)]
    hopeless = limit < 0
    kept = [[torch.where(hopeless, 0.0, v) for v in c] for c in (a, d)]
    wide = [[Scaled(v) for v in c] for c in (a, d)]
    return far, [
        _Quotient(torch.where(far, 0.0, z), kept[0], kept[1], spec),
        _Quotient(Scaled(torch.where(far, z, 1.0)), wide[0], wide[1], spec),
    ]


def _horner(coefficients: Sequence[Tensor], z: Tensor) -> Tensor:
    y = torch.zeros_like(z)
    for c in reversed(coefficients):
        y = y * z + c
    return y
