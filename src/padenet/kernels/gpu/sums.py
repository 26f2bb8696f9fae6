"""The sums of a thread, and of a program: a tuple of K tiles, or of SETS K."""

import triton
import triton.language as tl

from padenet.kernels.gpu.formula import ABS_TERMS, OFFSET, pick_set
from padenet.kernels.gpu.tiles import LANES


@triton.jit
def added(
    sums, ga, gb, x, which: tl.constexpr, SETS: tl.constexpr, FORM: tl.constexpr, M: tl.constexpr,
    N: tl.constexpr,
):  # fmt: skip
    """Set ``which`` of sums plus dy dF/da_j, then -dy dF/db_k, for "abs_terms" without b's sign."""
    CONSTANT: tl.constexpr = FORM == OFFSET
    K: tl.constexpr = M + 1 + N + CONSTANT
    s = pick_set(sums, which, K)
    a, b = (s[0] + ga,), ()
    if CONSTANT:
        b = (s[M + 1] + gb,)
    power = x
    for k in tl.static_range(1, (M if M > N else N) + 1):
        if k <= M:
            a = a + (ga * power + s[k],)
        if k <= N:
            z = tl.abs(power) if FORM == ABS_TERMS else power
            b = b + (gb * z + s[M + k + CONSTANT],)
        power *= x
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
    for k in tl.static_range(0 if FORM == OFFSET else 1, N + 1):
        out = out + (db[k],)
    return out
