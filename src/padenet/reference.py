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
|b_k| replaces b_k. Above a limit, where powers of z would overflow, the same quotient is taken in
1/z with the largest powers of P and Q divided out (class ``_Outside``); that is right up to the
largest finite x, and at x = inf it is the limit.

Shapes: ``a`` is ``(m + 1,)`` or ``(groups, m + 1)``, ``b`` is ``(n,)`` or ``(groups, n)``.
float64 computes in float64, every other dtype in float32. Works under every torch transform.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from padenet.noise import uniform
from padenet.spec import Spec
from padenet.tracing import is_plain

_SUM_ROW = 1024


def compute_dtype(x: Tensor) -> torch.dtype:
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def limit(dtype: torch.dtype, degree: int) -> float:
    """Powers up to ``degree`` of anything smaller, and products of two, are far from overflow."""
    return 2.0 ** ((480 if dtype == torch.float64 else 60) // max(degree, 1))


def forward(x: Tensor, a: Tensor, b: Tensor, key: Tensor | None, spec: Spec) -> Tensor:
    unit = _Unit(x, a, b, key, spec)
    return unit.restore(unit.local.value()).to(x.dtype)


def backward(
    dy: Tensor, x: Tensor, a: Tensor, b: Tensor, key: Tensor | None, spec: Spec
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of ``sum(dy * F(x))`` with respect to ``x``, ``a`` and ``b``.

    Noise is a constant factor of the coefficient it multiplies, and the gradient of the noisy
    coefficient is that of the coefficient itself.
    """
    unit = _Unit(x, a, b, key, spec)
    dv = unit.view(dy)
    dx = unit.restore(unit.slope(dv)).to(x.dtype)
    da = [unit.total(unit.da(dv, j)) for j in range(a.shape[-1])]
    db = [unit.total(unit.db(dv, i)) for i in range(b.shape[-1])]
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
    dy = torch.zeros_like(unit.x) if dx is None else unit.slope(unit.view(dx))
    for j, c in enumerate(() if da is None else unit.spread(da)):
        dy = dy + unit.da(c, j)
    for i, c in enumerate(() if db is None else unit.spread(db)):
        dy = dy + unit.db(c, i)
    return unit.restore(dy).to(x.dtype)


class _Unit:
    """``x`` viewed as ``(..., groups, channels of a group, ...)`` beside its coefficients.

    A derivative takes the factor ``g`` that it is multiplied by: ``g`` times a power of z may be an
    ordinary number where the power alone overflows.
    """

    def __init__(self, x: Tensor, a: Tensor, b: Tensor, key: Tensor | None, spec: Spec):
        self.dtype = compute_dtype(x)
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
        self.local = _local(self.sign * self.x, top, bottom, spec)

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
        if not self.groups:
            return list(c.unbind(-1))
        tail = [1] * (self.x.ndim - self.dim - 1)
        return [v.reshape(self.groups, *tail) for v in c.unbind(-1)]

    def slope(self, g: Tensor) -> Tensor:
        return self.local.slope(g * self.sign)

    def da(self, g: Tensor, j: int) -> Tensor:
        return self.local.da(g * self.sign if j % 2 else g, j)

    def db(self, g: Tensor, i: int) -> Tensor:
        """``g`` times the derivative with respect to ``b[i]``."""
        k = i + 1 - self.spec.constant
        if self.spec.form == "abs_terms":
            return self.local.db(g * self.b[i].sign(), k)
        return self.local.db(g * self.sign if k % 2 else g, k)

    def total(self, v: Tensor) -> Tensor:
        """The sum over all that shares a coefficient, in an order that no thread count changes."""
        groups = self.groups or 1
        rows = v.movedim(self.dim, 0) if self.groups else v
        rows = rows.reshape(groups, v.numel() // groups)
        while rows.shape[1] > _SUM_ROW:
            rows = torch.nn.functional.pad(rows, (0, -rows.shape[1] % _SUM_ROW))
            rows = rows.reshape(groups, -1, _SUM_ROW).sum(2, dtype=torch.float64)
        return rows.sum(1, dtype=torch.float64)


def _stack(sums: Sequence[Tensor], like: Tensor) -> Tensor:
    if not sums:
        return torch.zeros_like(like)
    return torch.stack(list(sums), -1).reshape(like.shape).to(like.dtype)


class _Inside:
    """F, its slope and weights at z below the limit, by Horner's rule in z."""

    def __init__(self, z: Tensor, a: Sequence[Tensor], d: Sequence[Tensor], spec: Spec):
        self.z = z
        P, self.dP = _horner(a, z), _horner([j * c for j, c in enumerate(a)][1:], z)
        A, self.dA = _horner(d, z), _horner([k * c for k, c in enumerate(d)][1:], z)
        self.s = _sign(A, z, spec)
        self.Q = spec.q + (A if spec.form == "free" else A.abs())
        self.F = P / self.Q

    def value(self) -> Tensor:
        return self.F

    def slope(self, g: Tensor) -> Tensor:
        return g * ((self.dP - self.s * self.dA * self.F) / self.Q)

    def da(self, g: Tensor, j: int) -> Tensor:
        return g * (self.z**j / self.Q)

    def db(self, g: Tensor, k: int) -> Tensor:
        return g * (-self.s * self.z**k * (self.F / self.Q))


class _Outside:
    """The same at z above the limit: ``P z^-M`` and ``Q z^-N`` by Horner's rule in t = 1/z.

    M and N are the highest powers whose coefficient is not zero. Then both polynomials tend to a
    number that is neither zero nor infinite, and F(z) = R(t) z^(M - N).
    """

    def __init__(self, z: Tensor, a: Sequence[Tensor], d: Sequence[Tensor], spec: Spec):
        self.z, self.t = z, 1 / z
        self.m, self.n = len(a) - 1, len(d) - 1
        self.M, self.N = _degree(a), _degree(d)
        P, self.dP = self._poly(a, self.M), self._poly([j * c for j, c in enumerate(a)], self.M)
        A, self.dA = self._poly(d, self.N), self._poly([k * c for k, c in enumerate(d)], self.N)
        self.s = _sign(A, z, spec)
        q = self._power(torch.full_like(z, spec.q), -self.N, self.n)
        self.Q = q + (A if spec.form == "free" else A.abs())
        self.R = P / self.Q

    def value(self) -> Tensor:
        return self._power(self.R, self.M - self.N, max(self.m, self.n))

    def slope(self, g: Tensor) -> Tensor:
        y = (self.dP - self.s * self.dA * self.R) / self.Q
        return self._product(g, y, self.M - self.N - 1, max(self.m, self.n + 1))

    def da(self, g: Tensor, j: int) -> Tensor:
        return self._product(g, 1 / self.Q, j - self.N, max(j, self.n))

    def db(self, g: Tensor, k: int) -> Tensor:
        small = g.abs() < self.R.abs()  # 1/Q, as large as 1 over a tiny b_n, goes to the smaller
        g, y = (
            g / torch.where(small, self.Q, 1.0),
            -self.s * self.R / torch.where(small, 1.0, self.Q),
        )
        return self._product(g, y, self.M - 2 * self.N + k, max(self.m + k, 2 * self.n))

    def _poly(self, c: Sequence[Tensor], top: Tensor) -> Tensor:
        """``sum_j c_j z^(j - top)``, lowest power first: the terms above ``top`` are zero."""
        y = torch.zeros_like(self.z)
        for j, v in enumerate(c):
            y = torch.where(top >= j, y * self.t + v, y)
        return y

    def _power(self, y: Tensor, e: Tensor, most: int) -> Tensor:
        """``y z^e``, |e| <= most, one factor at a time so that nothing overflows on the way."""
        for i in range(most):
            y = y * self._factor(e, i)
        return y

    def _product(self, g: Tensor, y: Tensor, e: Tensor, most: int) -> Tensor:
        """``g y z^e``. z goes to the smaller of g and y, 1/z to the larger: nothing overflows."""
        e = torch.where(self.z.isinf() & ((g == 0) | (y == 0)), 0, e)  # zero stays zero
        for i in range(most):
            to_g = (g.abs() < y.abs()) == (e > 0)
            factor = self._factor(e, i)
            g, y = g * torch.where(to_g, factor, 1.0), y * torch.where(to_g, 1.0, factor)
        return g * y

    def _factor(self, e: Tensor, i: int) -> Tensor:
        return torch.where(e > i, self.z, torch.where(e < -i, self.t, 1.0))


class _Both:
    """Each element from the side of the limit that it is on; the other side sees the limit."""

    def __init__(
        self, z: Tensor, a: Sequence[Tensor], d: Sequence[Tensor], spec: Spec, edge: float
    ):
        self.far = z > edge
        self.inside = _Inside(torch.where(self.far, edge, z), a, d, spec)
        self.outside = _Outside(torch.where(self.far, z, edge), a, d, spec)

    def value(self) -> Tensor:
        return torch.where(self.far, self.outside.value(), self.inside.value())

    def slope(self, g: Tensor) -> Tensor:
        outside, inside = self.outside.slope(g), self.inside.slope(g)
        return torch.where(self.far, outside, inside)

    def da(self, g: Tensor, j: int) -> Tensor:
        outside, inside = self.outside.da(g, j), self.inside.da(g, j)
        return torch.where(self.far, outside, inside)

    def db(self, g: Tensor, k: int) -> Tensor:
        outside, inside = self.outside.db(g, k), self.inside.db(g, k)
        return torch.where(self.far, outside, inside)


def _local(z: Tensor, a: Sequence[Tensor], d: Sequence[Tensor], spec: Spec) -> _Inside | _Both:
    edge = limit(z.dtype, max(len(a), len(d)) - 1)
    can_look = z.device.type == "cpu" and is_plain(z) and not torch.compiler.is_compiling()
    if can_look and not bool((z > edge).any()):
        return _Inside(z, a, d, spec)
    return _Both(z, a, d, spec, edge)


def _sign(A: Tensor, z: Tensor, spec: Spec) -> Tensor:
    """The derivative of |A|. For abs_terms that of |x|, as A may underflow to 0 before z does."""
    if spec.form == "free":
        return torch.ones_like(A)
    return z.sign() if spec.form == "abs_terms" else A.sign()


def _horner(coefficients: Sequence[Tensor], z: Tensor) -> Tensor:
    y = torch.zeros_like(z)
    for c in reversed(coefficients):
        y = y * z + c
    return y


def _degree(coefficients: Sequence[Tensor]) -> Tensor:
    """The highest power with a coefficient that is not zero, 0 if there is none."""
    top = torch.zeros_like(coefficients[0], dtype=torch.int64)
    for j, c in enumerate(coefficients):
        top = torch.where(c != 0, j, top)
    return top
