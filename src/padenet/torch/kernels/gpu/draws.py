"""The noise of ``padenet/core/noise.py``."""

import triton
import triton.language as tl

from padenet.torch.kernels.gpu.formula import HAS_B0


@triton.jit
def noisy(
    a, d, offset, seed, alpha, middle, minor, FORM: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
    NOISE: tl.constexpr,
):  # fmt: skip
    """The coefficients that each element sees: c (1 + alpha u), u as in ``padenet/core/noise.py``.

    NOISE 2: memory holds (..., middle, minor), the shape says (..., minor, middle).
    """
    if NOISE == 0:
        return a, d
    else:
        return _with_noise(a, d, offset, seed, alpha, middle, minor, FORM, M, N, NOISE)


@triton.jit
def _with_noise(
    a, d, offset, seed, alpha, middle, minor, FORM: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
    NOISE: tl.constexpr,
):  # fmt: skip
    index = offset.to(tl.int64)
    if NOISE == 2:
        place = index % (middle * minor)
        index += place % minor * middle + place // minor - place
    CONSTANT: tl.constexpr = FORM // HAS_B0
    u, v = (), (() if CONSTANT else (d[0],))
    w0, w1, w2, w3 = _philox(seed, index, 0)
    for i in tl.static_range(M + 1 + N + CONSTANT):
        if i % 10 == 0 and i > 0:
            w0, w1, w2, w3 = _philox(seed, index, i // 10)
        f = _slot(w0, w1, w2, w3, i % 10)
        c = a[i] if i <= M else d[i - M - CONSTANT]
        # u = 2 f - 3 + 1/4096
        c = f * (2 * alpha * c) + (c - alpha * c * (3 - 1 / 4096))
        if i <= M:
            u = u + (c,)
        else:
            v = v + (c,)
    return u, v


@triton.jit
def _slot(w0, w1, w2, w3, S: tl.constexpr):
    """Slot S as the mantissa of a number in [1, 2)."""
    if S == 8 or S == 9:
        low, high = (w0, w1) if S == 8 else (w2, w3)
        bits = ((low << 11) & 0x7F800) | ((high << 19) & 0x780000)
    else:
        w = w0 if S // 2 == 0 else w1 if S // 2 == 1 else w2 if S // 2 == 2 else w3
        bits = ((w << 3) if S % 2 else (w >> 9)) & 0x7FF800
    return (bits | 0x3F800000).to(tl.float32, bitcast=True)


@triton.jit
def _philox(seed, index, DRAW: tl.constexpr):
    k0, k1 = seed.to(tl.uint32), (seed >> 32).to(tl.uint32)
    c0, c1 = index.to(tl.uint32), (index >> 32).to(tl.uint32)
    c2, c3 = tl.full(c0.shape, DRAW, tl.uint32), tl.zeros(c0.shape, tl.uint32)
    m0, m1 = tl.full((), 0xD2511F53, tl.uint32), tl.full((), 0xCD9E8D57, tl.uint32)
    w0, w1 = tl.full((), 0x9E3779B9, tl.uint32), tl.full((), 0xBB67AE85, tl.uint32)
    for _ in tl.static_range(7):
        h0, l0 = tl.umulhi(c0, m0), c0 * m0
        h1, l1 = tl.umulhi(c2, m1), c2 * m1
        c0, c1, c2, c3 = h1 ^ c1 ^ k0, l1, h0 ^ c3 ^ k1, l0
        k0, k1 = k0 + w0, k1 + w1
    return c0, c1, c2, c3
