"""The quotient and its derivatives in float32, and the coefficients for it.

A set is the coefficients of one part of a word: in LANES the two halves have units of their own.
"""

import triton
import triton.language as tl

from padenet.torch.kernels.gpu.tiles import LANES
from padenet.torch.kernels.gpu.words import part

PER_TERM, AROUND, HAS_B0 = (tl.constexpr(i) for i in (1, 2, 4))  # bits of FORM: core/forms.py
ABSOLUTE = tl.constexpr(3)  # either of the first two


@triton.jit
def coefficients(
    a_ptr, b_ptr, unit, width, span, FORM: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
    LAYOUT: tl.constexpr, COLS: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """a and d of the unit; in LANES rows of those of every column, a set for each part."""
    CONSTANT: tl.constexpr = FORM // HAS_B0
    a, d = (), ()
    for half in tl.static_range(PARTS if LAYOUT == LANES else 1):
        if LAYOUT == LANES:
            column = tl.minimum(unit + tl.arange(0, COLS), width - 1)[None, :]
            which = ((column * PARTS + half) // span).to(tl.int64)
        else:
            which = unit
        for j in tl.static_range(M + 1):
            a = a + (tl.load(a_ptr + which * (M + 1) + j).to(tl.float32),)
        if not CONSTANT:
            d = d + (0.0,)
        for k in tl.static_range(N + CONSTANT):
            b = tl.load(b_ptr + which * (N + CONSTANT) + k).to(tl.float32)
            if PER_TERM & FORM:
                b = tl.abs(b)
            elif CONSTANT and k == 0:
                b += 0.0  # not -0: see ``horner``
            d = d + (b,)
    return a, d


@triton.jit
def in_threads(
    a_ptr, b_ptr, unit, a, d, numel, FORM: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
    LAYOUT: tl.constexpr, NOISE: tl.constexpr, DEEP: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """a and d, those of them loaded by each thread for itself of which that saves a copy.

    The compiler keeps what all threads share in registers of its own, of which a multiply-add takes
    one. The first of Horner's steps has two, and would copy one over for every element; with noise
    every coefficient is made from two.
    """
    if LAYOUT == LANES or (NOISE == 0 and (M == 0 or N == 0)):
        return a, d
    else:
        CONSTANT: tl.constexpr = FORM // HAS_B0
        lane = tl.arange(0, DEEP)[:, None] + tl.arange(0, WIDE)[None, :]
        zero = tl.where(numel < 0, lane, 0)  # which the compiler cannot know
        own_a, own_d = (), ()
        for j in tl.static_range(M + 1):
            c = a[j]
            if NOISE > 0 or j == M:
                c = tl.load(a_ptr + (unit * (M + 1) + j + zero)).to(tl.float32)
            own_a = own_a + (c,)
        for k in tl.static_range(N + 1):
            c = d[k]
            if (k > 0 or CONSTANT) and (NOISE > 0 or k == N):
                c = tl.load(b_ptr + (unit * (N + CONSTANT) + k + CONSTANT - 1 + zero))
                c = c.to(tl.float32)
                if PER_TERM & FORM:
                    c = tl.abs(c)
                elif k == 0:
                    c += 0.0  # as in ``coefficients``
            own_d = own_d + (c,)
        return own_a, own_d


@triton.jit
def pick_set(c, which: tl.constexpr, COUNT: tl.constexpr):
    """Set ``which`` of those of COUNT that ``c`` holds one after the other."""
    out = ()
    for i in tl.static_range(COUNT):
        out = out + (c[which * COUNT + i],)
    return out


@triton.jit
def joined_sets(c, COUNT: tl.constexpr, SETS: tl.constexpr, COLS: tl.constexpr):
    """The sets of the parts of a word as one, of twice as many columns."""
    if SETS == 1:
        return c
    else:
        out, row = (), tl.zeros((1, COLS), tl.float32)
        for i in tl.static_range(COUNT):
            pair = tl.join(row + c[i], row + c[COUNT + i])
            out = out + (tl.reshape(pair, (1, 2 * COLS)),)
        return out


@triton.jit
def limits(a, d, M: tl.constexpr, N: tl.constexpr, SETS: tl.constexpr, NOISE: tl.constexpr):
    out = ()
    for i in tl.static_range(SETS):
        out = out + (_limit(pick_set(a, i, M + 1), pick_set(d, i, N + 1), M, N, NOISE),)
    return out


@triton.jit
def _limit(a, d, M: tl.constexpr, N: tl.constexpr, NOISE: tl.constexpr):
    """Below this |x| no power, times any coefficient, comes near overflow; -1 if not even at 0."""
    SCALE: tl.constexpr = 2.0**-10
    top = tl.abs(a[0]) * SCALE
    for j in tl.static_range(1, M + 1):
        top += tl.abs(a[j]) * (j * SCALE)
    bottom = top * 0 + (1 + tl.abs(d[0])) * SCALE
    for k in tl.static_range(1, N + 1):
        bottom += tl.abs(d[k]) * (k * SCALE)
    both = top + bottom
    exponent = (both.to(tl.int32, bitcast=True) >> 23) - 126 + 10
    spare = (59 if NOISE else 60) - exponent
    bits = 127 + spare // (M if M > N else N if N > 0 else 1)
    power = tl.where(spare < 0, -1.0, (bits << 23).to(tl.float32, bitcast=True))
    return tl.where(both < float("inf"), power, float("inf"))  # NaN and inf come out by themselves


@triton.jit
def larger(largest, words, x, i: tl.constexpr, SETS: tl.constexpr, PACKED: tl.constexpr, ptr):
    """The largest |x| so far, with x: element ``i`` of the words. PACKED: in words as they are
    loaded, two elements at once; signs mean nothing there."""
    if not PACKED:
        out = ()
        for s in tl.static_range(SETS):
            out = out + (tl.maximum(largest[s], tl.abs(x)) if s == i % SETS else largest[s],)
        return out
    elif i % 2:
        return largest
    else:
        TYPE: tl.constexpr = "bf16x2" if ptr.dtype.element_ty == tl.bfloat16 else "f16x2"
        return (
            tl.inline_asm_elementwise(
                "max.xorsign.abs." + TYPE + " $0, $1, $2;", "=r,r,r", [largest[0], words],
                dtype=tl.int32, is_pure=True, pack=1,
            ),
        )  # fmt: skip


@triton.jit
def exceeds(largest, limit, SETS: tl.constexpr, PACKED: tl.constexpr, ptr):
    """Whether any is above its limit."""
    far = 0
    for i in tl.static_range(2 if PACKED else SETS):
        top = tl.abs(part(largest[0], i, 2, ptr)) if PACKED else largest[i]
        far |= (top > limit[i % SETS]).to(tl.int32)
    return tl.max(far) > 0


@triton.jit
def polynomials(x, a, d, FORM: tl.constexpr, M: tl.constexpr, N: tl.constexpr, ONE: tl.constexpr):
    """P, P', A and A' (with respect to |x| for "abs_terms"). ONE: a and d are the same for all.

    A multiply-add that reads three registers takes two cycles on NVIDIA's chips, one that reads a
    coefficient which all threads share takes one. So the derivatives then have coefficients of
    their own, k c_k; where they would take registers, they are made from the polynomial's steps.
    """
    P, dP = horner(x, a, M, ONE)
    A, dA = horner(tl.abs(x) if PER_TERM & FORM else x, d, N, ONE)
    return P, dP, A, dA


@triton.jit
def horner(x, c, DEGREE: tl.constexpr, OWN: tl.constexpr):
    """The polynomial and its derivative. Where it is 0 it is not -0, if c_0 is not: a c_0 of 0 is
    added as well. (A negative value that underflows becomes -0.)"""
    if DEGREE == 0:
        return tl.zeros_like(x) + c[0], tl.zeros_like(x)
    else:
        P, dP = c[DEGREE], DEGREE * c[DEGREE]
        if P.numel != x.numel:
            P, dP = tl.zeros_like(x) + P, tl.zeros_like(x) + dP
        for j in tl.static_range(DEGREE - 1, -1, -1):
            if not OWN:
                dP = P if j == DEGREE - 1 else dP * x + P
            elif j > 0:
                dP = dP * x + j * c[j]
            P = P * x + c[j]
        return P, dP


@triton.jit
def denominator(A, q, FORM: tl.constexpr):
    return q + (tl.abs(A) if AROUND & FORM else A)


@triton.jit
def reciprocal(Q, NVIDIA: tl.constexpr):
    """1 / Q to one unit in the last place; Q is neither subnormal nor so large that 1 / Q is."""
    if NVIDIA:
        return tl.inline_asm_elementwise(
            "rcp.approx.ftz.f32 $0, $1;", "=f,f", [Q], dtype=tl.float32, is_pure=True, pack=1
        )
    else:
        return 1.0 / Q


@triton.jit
def product(a, b, NVIDIA: tl.constexpr):
    """a b, kept from becoming part of a multiply-add, which would read three registers."""
    if NVIDIA:
        return tl.inline_asm_elementwise(
            "mul.rn.f32 $0, $1, $2;", "=f,f,f", [a, b], dtype=tl.float32, is_pure=True, pack=1
        )
    else:
        return a * b


@triton.jit
def with_sign(r, A, NVIDIA: tl.constexpr, ONE_Q: tl.constexpr):
    """r = 1 / (q + |A|) times the sign of A; 0 where A is 0. ONE_Q: q is 1, so that r <= 1.

    A's bits, read as an integer, are 0 or not smaller than r: the smaller of both is 0 or r. -0
    counts as negative, as it should: see ``horner``. That takes two instructions instead of three.
    """
    if NVIDIA == 2 and ONE_Q:
        return tl.inline_asm_elementwise(
            "min.xorsign.abs.f32 $0, $1, $2;", "=f,f,f",
            [r, A.to(tl.int32, bitcast=True).to(tl.float32)],
            dtype=tl.float32, is_pure=True, pack=1,
        )  # fmt: skip
    else:
        return times_sign(r, A)


@triton.jit
def times_sign(r, A):
    bits = r.to(tl.int32, bitcast=True) ^ (A.to(tl.int32, bitcast=True) & -2147483648)
    return tl.where(A == 0, 0.0, bits.to(tl.float32, bitcast=True))
