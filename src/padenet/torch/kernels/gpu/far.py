"""The quotient and its derivatives at any x, in float64."""

import triton
import triton.language as tl

from padenet.torch.kernels.gpu.formula import ABSOLUTE, PER_TERM, denominator, horner


@triton.jit
def evaluate(g, x, a, d, q, FORM: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    """F, and g times dF/dx, dF/da_j and -dF/dd_k, of any x, in float64.

    Written in z = |x|, the sign of x moved into the odd coefficients. Up to EDGE by Horner's rule;
    beyond it P z^-mm and Q z^-nn in t = 1/z, mm and nn the highest powers whose coefficient is not
    zero, and the powers of z are multiplied back last.
    """
    TOP: tl.constexpr = M if M > N else N if N > 0 else 1
    EDGE: tl.constexpr = 2.0 ** (480 // TOP)
    sign = tl.where(x < 0, -1.0, 1.0).to(tl.float64)
    z = tl.abs(x)
    beyond = z > EDGE
    a = _folded(a, sign, M, True)
    d = _folded(d, sign, N, PER_TERM & FORM == 0)

    near = tl.where(beyond, EDGE, z)
    P, dP = horner(near, a, M, False)
    A, dA = horner(near, d, N, False)
    s = _sign64(A, z, FORM)
    Q = denominator(A, q, FORM)
    F = P / Q
    slope = (dP - s * dA * F) / Q

    far = tl.where(beyond, z, EDGE)
    t = 1.0 / far
    mm, nn = _degree(a, M), _degree(d, N)
    P, dP = _descending(a, t, mm, M)
    A, dA = _descending(d, t, nn, N)
    s_far = _sign64(A, z, FORM)
    Q_far = denominator(A, q * _power(far, t, -nn, N), FORM)
    R = P / Q_far
    slope_far = (dP - s_far * dA * R) / Q_far

    F = tl.where(beyond, _product(R, far, t, mm - nn, TOP), F)
    dx = tl.where(
        beyond, _product(g * sign * slope_far, far, t, mm - nn - 1, M + N + 1), g * sign * slope
    )
    ga, gb = g / Q, g / Q * s * F
    ga_far, gb_far = g / Q_far, g * s_far * R / Q_far
    if PER_TERM & FORM:
        gb, gb_far = g / Q * F, g * R / Q_far
    da, db = (), ()
    p = tl.full(x.shape, 1.0, tl.float64)
    for j in tl.static_range(TOP + 1):
        odd = sign if j % 2 else 1.0
        if j <= M:
            w = _product(ga_far, far, t, j - nn, M + N)
            da = da + (tl.where(beyond, w, ga * p) * odd,)
        if j <= N:
            w = _product(gb_far, far, t, mm - 2 * nn + j, M + 2 * N)
            w = tl.where(beyond, w, gb * p)
            db = db + (w if PER_TERM & FORM else w * odd,)
        p *= near
    return F, dx, da, db


@triton.jit
def _folded(c, sign, DEGREE: tl.constexpr, FOLD: tl.constexpr):
    out = ()
    for j in tl.static_range(DEGREE + 1):
        v = tl.zeros_like(sign) + c[j]
        out = out + (v * sign if FOLD and j % 2 else v,)
    return out


@triton.jit
def _sign64(A, z, FORM: tl.constexpr):
    if ABSOLUTE & FORM == 0:
        return tl.full(A.shape, 1.0, tl.float64)
    else:
        v = z if PER_TERM & FORM else A
        return tl.where(v > 0, 1.0, tl.where(v < 0, -1.0, tl.where(v == 0, 0.0, v)))


@triton.jit
def _degree(c, DEGREE: tl.constexpr):
    top = tl.zeros(c[0].shape, tl.int32)
    for j in tl.static_range(DEGREE + 1):
        top = tl.where(c[j] != 0, j, top)
    return top


@triton.jit
def _descending(c, t, top, DEGREE: tl.constexpr):
    """``sum_j c_j z^(j - top)`` and ``sum_j j c_j z^(j - top)``; the terms above ``top`` are 0."""
    P, dP = tl.zeros_like(t), tl.zeros_like(t)
    for j in tl.static_range(DEGREE + 1):
        P = tl.where(top >= j, P * t + c[j], P)
        dP = tl.where(top >= j, dP * t + j * c[j], dP)
    return P, dP


@triton.jit
def _power(z, t, e, MOST: tl.constexpr):
    """z^e for |e| <= MOST."""
    y = tl.full(z.shape, 1.0, tl.float64)
    for i in range(MOST):
        y *= tl.where(e > i, z, tl.where(e < -i, t, 1.0))
    return y


@triton.jit
def _product(y, z, t, e, MOST: tl.constexpr):
    """y z^e, and 0 for y = 0 even if the power overflows."""
    return tl.where(y == 0, 0.0, y * _power(z, t, e, MOST))
