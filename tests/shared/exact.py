r"""What ``rational`` should return, and how far from it the roundings of a kernel may lead.

The formulas stand here once, over numpy arrays of float64 (to judge float32 and narrower types) or
of MPFR numbers (60 digits and any exponent: to judge float64, and arguments whose powers
overflow). Infinity is 2^(2^20) there, so that what comes out is the limit.

Each number is carried as ``Near(v, e)``: its exact value, and a bound on the error of any sensible
evaluation with unit roundoff ``u`` and smallest positive number ``eta``:

- Horner's rule in x, or, where powers overflow, in a rounded 1/|x| with the powers of |x|
  multiplied back one by one; with or without FMA, which only saves roundings;
- coefficients rounded to the compute dtype; noisy ones, c + alpha u c with alpha up to 1/4, made in
  an order of the kernel's choice: c f + (c - 3 alpha c), as they do it, has roundings of 1, 3/4,
  1/4 + 3/4 and 5/4 times c besides, all in all below six of the 3/4 |c| that is left at least;
- below the range dy / Q, which float32 may multiply by F or Q F' only then: an ``eta`` times that;
- sums over elements in chunks of at most 256 additions, the chunks in float64. (The kernels of the
  GPU make up to 512, and are held to the same bound.)

Where |A| is below its own error its computed sign may be -1, 0 or 1, and the slope jumps there: s
then carries an error as large as the jump. The denominator of ``free`` has no floor, so close to a
pole, where Q is below its own error, nothing can be said and ``e`` is infinite.

``b[0]`` is b_1, except in ``offset``, where it is b_0.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from padenet.core.forms import FORMS

try:
    from gmpy2 import get_context, mpfr

    get_context().precision = 203  # bits: 60 digits
except ImportError:  # much slower, but torch brings it
    import mpmath

    mpmath.mp.dps = 60
    mpfr = mpmath.mpf

INFINITY = mpfr(2) ** 2**20
CHUNK = 256  # additions in the compute dtype, one after the other
ROOM = {torch.float32: 2.0**60, torch.float64: 2.0**480}  # powers are not let grow beyond this


def to_mpfr(values):
    """``values`` as an array of MPFR numbers; what is computed from them has 60 digits as well."""
    held = {np.inf: INFINITY, -np.inf: -INFINITY}
    with np.errstate(over="ignore"):  # of MPFR, which scales the number it reads
        return np.frompyfunc(lambda v: held.get(v) or mpfr(v), 1, 1)(values)


@dataclass
class Near:
    v: Any
    e: Any

    def __add__(self, other):
        return Near(self.v + other.v, self.e + other.e)

    def __sub__(self, other):
        return Near(self.v - other.v, self.e + other.e)

    def __mul__(self, other):
        e = abs(self.v) * other.e + self.e * abs(other.v) + self.e * other.e
        return Near(self.v * other.v, e)

    def over(self, Q, floor):
        """The quotient by ``Q``, whose computed value is at least ``floor``."""
        low = np.maximum(abs(Q.v) - Q.e, floor)
        v = self.v / np.where(Q.v == 0, 1, Q.v)
        e = (self.e + abs(v) * Q.e) / np.where(low > 0, low, 1)
        return Near(v, np.where(low > 0, e, np.inf))


def exact(dy, x, a, b, **options):
    """``y, dx, da, db`` of ``rational``, a ``Near`` each."""
    unit = Exact(x, a, b, **options)
    return unit.y, *unit.gradients(dy)


class Exact:
    """F and its derivatives at each element of ``x``. ``digits`` is "float64" or "mpfr".

    ``noise`` is alpha u of each coefficient, those of ``a`` first: arrays like ``x``, up to 1/4.
    """

    def __init__(self, x, a, b, *, form="safe", q=1.0, channel_dim=1, digits="float64", noise=None):
        dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
        info = torch.finfo(dtype)
        self.u, self.eta, self.room = info.eps / 2, info.smallest_normal * info.eps, ROOM[dtype]
        self.form, self.digits, self.shapes = FORMS[form], digits, (a.shape, b.shape)
        per_term, first = self.form.per_term, int(not self.form.constant)
        self.dim = channel_dim if a.ndim == 2 else None
        self.x = x = _array(x, digits)
        self.z = abs(x)
        a, self.b = (_spread(_array(c, digits), x, self.dim) for c in (a, b))
        self.rounded = 2
        if noise is not None:
            self.rounded = 6
            noisy = [c * (1 + u) for c, u in zip([*a, *self.b], noise, strict=True)]
            a, self.b = noisy[: len(a)], noisy[len(a) :]

        d = [0 * x] * first + [abs(c) if per_term else c for c in self.b]
        m, n = len(a) - 1, len(d) - 1
        # where 1/z may be used: its own rounding, up to 4 u where it is subnormal
        far = self.z > self.room ** (0.5 / max(m, n, 1))
        self.tau = np.where(far, np.clip(self.eta / 2 / self.u * self.z, 1, 4), 0)
        self.roundings = 6 + far * (1 + self.tau) * (m + 2 * n)  # with powers multiplied back

        inner = self.z if per_term else x
        P, dP = self._polynomial(a, x), self._polynomial(_derived(a), x)
        A, dA = self._polynomial(d, inner), self._polynomial(_derived(d), inner)
        one = Near(0 * x + 1, 0 * x)
        self.s = _sign(A) if self.form.around and not per_term else one
        e = A.e + self.u * ((1 + self.tau) * n + 2) * (q + abs(A.v) + A.e)
        self.Q, self.floor = Near(q + self.s.v * A.v, e), 0 if self.form.has_poles else q / 2
        self.y = self._round(P.over(self.Q, self.floor))

        s = Near(np.sign(x), 0 * x) if per_term else self.s
        top = dP - self._round(s * dA * self.y)
        self.slope = self._over_Q(top)
        # what multiplies dy / Q in the end, where kernels make that first
        early = dtype == torch.float32
        self.lift_x, self.lift_b = (np.maximum(abs(t.v) * early, 1) for t in (top, self.y))
        self.da = [self._over_Q(self._power(x, j)) for j in range(m + 1)]
        self.db = [self._db(k, c) for k, c in enumerate(self.b, first)]

    def _db(self, k, c):
        s, power = self.s, self._power(self.x, k)
        if self.form.per_term:
            s, power = Near(np.sign(c) + 0 * self.x, 0 * self.x), self._power(self.z, k)
        w = self._round(s * power * self._over_Q(self.y))
        return Near(-w.v, w.e)

    def gradients(self, dy):
        """``dx``, and ``da``, ``db`` summed over the elements that share a coefficient."""
        dy = _array(dy, self.digits)
        g = Near(dy, 0 * dy)
        da = [self._weigh(g, w, j) for j, w in enumerate(self.da)]
        db = [
            self._weigh(g, w, k, self.lift_b)
            for k, w in enumerate(self.db, int(not self.form.constant))
        ]
        sums = (
            _sums(w, shape, self.dim, self.u)
            for w, shape in zip((da, db), self.shapes, strict=True)
        )
        return self._weigh(g, self.slope, 0, self.lift_x), *sums

    def _weigh(self, g, w, power, lift=1):
        """``g w``; what is without the power of z and ``lift`` may underflow before they do."""
        out = self._round(g * w)
        near = np.minimum(self.z**power, self.room) * np.minimum(lift, self.room)
        return Near(out.v, out.e + self.eta * near)

    def _over_Q(self, near):
        return self._round(near.over(self.Q, self.floor))

    def _round(self, near):
        e = near.e + self.u * self.roundings * (abs(near.v) + near.e) + self.eta
        return Near(near.v, e)

    def _power(self, x, k):
        """A product that underflows may be multiplied by the powers that are still to come."""
        lost = sum((self.z**i for i in range(k - 1)), 0 * x)
        return Near(x**k, self.u * k * self.z**k + self.eta * lost * (x != 0))

    def _polynomial(self, c, x):
        """Two roundings per step of Horner's rule, ``tau`` for 1/z, and those of a coefficient."""
        z = abs(x)
        v = terms = steps = 0 * x
        nonzero = False
        for coefficient in reversed(c):
            nonzero = nonzero | (coefficient != 0)
            v = v * x + coefficient
            terms = terms * z + abs(coefficient)
            steps = steps * z + nonzero
        e = self.u * ((2 + self.tau) * (len(c) - 1) + self.rounded) * terms
        return Near(v, e + self.eta * steps * (x != 0))


def _derived(c):
    return [j * v for j, v in enumerate(c)][1:]


def _sign(A):
    s = np.sign(A.v)
    return Near(s, np.where(abs(A.v) <= A.e, (A.e > 0) * (1 + abs(s)), 0 * s))


def _array(t, digits):
    values = t.detach().double().numpy()
    return to_mpfr(values).astype(object) if digits == "mpfr" else values


def _spread(c, x, dim):
    """The list of coefficients, each as an array that broadcasts against ``x``."""
    if dim is None:
        return list(c)
    shape = [1] * x.ndim
    shape[dim] = x.shape[dim]
    return [np.repeat(v, x.shape[dim] // len(v)).reshape(shape) for v in c.T]


def _sums(weights, shape, dim, u):
    """Every weight summed over the elements of each group, in the shape of the coefficients."""
    groups = shape[0] if len(shape) == 2 else 1
    out = Near(np.zeros((groups, len(weights)), object), np.zeros((groups, len(weights)), object))
    for i, w in enumerate(weights):
        v, e = (np.moveaxis(t, dim or 0, 0) if t.ndim else t for t in (w.v, w.e))
        v, e = (t.reshape(groups, t.size // groups) for t in (v, e))
        count = v.shape[1]
        roundings = u * min(CHUNK, count) + torch.finfo(torch.float64).eps * count / CHUNK
        out.v[:, i] = v.sum(1)
        out.e[:, i] = e.sum(1) + roundings * (abs(v) + e).sum(1)
    return Near(*(t.reshape(shape) for t in (out.v, out.e)))


def excess(got, want):
    """By how many times its bound, rounding to the dtype of ``got`` included, each value is off.

    Infinity is right where the exact value may overflow, and nowhere else.
    """
    info = torch.finfo(got.dtype)
    wide = np.asarray(want.v).dtype == object
    # from here on, rounds to infinity
    overflow = (mpfr if wide else float)(info.max) * (1 + info.eps / 4)
    size = abs(want.v) + want.e
    bound = want.e + size * (info.eps / 2) + info.smallest_normal * info.eps / 2
    values = got.detach().double().numpy()
    finite = np.isfinite(values)
    off = np.where(finite, values, 0)
    off = abs((to_mpfr(off) if wide else off) - want.v) / bound
    reach = np.sign(values) * want.v + want.e  # on the side of the value
    may_overflow = (reach >= overflow) & np.isinf(values)
    off = np.where(finite, off, np.where(may_overflow, 0, np.inf))
    return np.where(want.e == np.inf, 0, off).astype(float)


def assert_near(got, want, what=""):
    """Every value within its bound, or a message that shows the worst."""
    off = excess(got, want)
    if off.size and not off.max() <= 1:
        at = np.unravel_index(np.nanargmax(np.where(np.isnan(off), np.inf, off)), off.shape)
        v, e = (np.broadcast_to(t, off.shape)[at] for t in (want.v, want.e))
        raise AssertionError(
            f"{what}{list(map(int, at))} is {got[at].item()}, should be {mpfr(v):.17g} "
            f"+- {mpfr(e):.2g}: off by {off[at]:.3g} times the bound"
        )
