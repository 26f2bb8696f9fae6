"""The sums of a thread, and of a program: a tuple of K tiles, or of SETS K."""

import triton
import triton.language as tl

from padenet.torch.kernels.gpu.formula import HAS_B0, PER_TERM, pick_set, product
from padenet.torch.kernels.gpu.tiles import LANES


@triton.jit
def added(
    sums, g, F, sF, x, which: tl.constexpr, SETS: tl.constexpr, FORM: tl.constexpr,
    M: tl.constexpr, N: tl.constexpr, NVIDIA: tl.constexpr,
):  # fmt: skip
    """Set ``which`` of sums plus dy dF/da_j = g x^j, then -dy dF/db_k, for "abs_terms" without b's
    sign: g x^k times F and the sign of A, or |x|^k in place of x^k."""
    CONSTANT: tl.constexpr = FORM // HAS_B0
    K: tl.constexpr = M + 1 + N + CONSTANT
    s = pick_set(sums, which, K)
    a, b = (s[0] + g,), ()
    if CONSTANT:
        b = ((F if PER_TERM & FORM else sF) * g + s[M + 1],)
    for k in tl.static_range(1, (M if M > N else N) + 1):
        if k == M and k > N:  # the last, needed for one sum alone
            a = a + (g * x + s[k],)
        else:
            g = product(g, x, NVIDIA)
            if k <= M:
                a = a + (s[k] + g,)
            if k <= N:
                b = b + ((F if PER_TERM & FORM and k % 2 == 0 else sF) * g + s[M + k + CONSTANT],)
    out = ()
    for i in tl.static_range(SETS):
        out = out + (a + b if i == which else pick_set(sums, i, K))
    return out


@triton.jit
def zeros(K: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, dtype: tl.constexpr):
    sums = ()
    for _ in tl.static_range(K):
        sums = sums + (tl.zeros((ROWS, COLS), dtype),)
    return sums


@triton.jit
def plus(a, b, COUNT: tl.constexpr):
    out = ()
    for i in tl.static_range(COUNT):
        out = out + (a[i] + b[i],)
    return out


@triton.jit
def zero_if(condition, a, COUNT: tl.constexpr):
    out = ()
    for i in tl.static_range(COUNT):
        out = out + (tl.where(condition, 0.0, a[i]),)
    return out


@triton.jit
def reduced(sums, LAYOUT: tl.constexpr, K: tl.constexpr, SETS: tl.constexpr):
    """Each sum over the threads, in float64: a number, or in LANES one for every column."""
    out = ()
    for i in tl.static_range(K):
        s = tl.sum(sums[i], 0)
        if LAYOUT != LANES:
            s = tl.sum(s, 0)
        elif SETS == 2:
            odd = tl.sum(sums[K + i], 0)
            s = tl.reshape(tl.join(s, odd), (2 * s.shape[0],))
        out = out + (s.to(tl.float64),)
    return out


@triton.jit
def without_constant(db, FORM: tl.constexpr, N: tl.constexpr):
    out = ()
    for k in tl.static_range(1 - FORM // HAS_B0, N + 1):
        out = out + (db[k],)
    return out
