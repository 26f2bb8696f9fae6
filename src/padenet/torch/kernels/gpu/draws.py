"""The noise of ``padenet/core/noise.py``."""

import triton
import triton.language as tl

from padenet.torch.kernels.gpu.formula import HAS_B0


@triton.jit
def noisy(
    a, d, own, offset, seed, alpha, middle, minor, FORM: tl.constexpr, M: tl.constexpr,
    N: tl.constexpr, NOISE: tl.constexpr, NVIDIA: tl.constexpr,
):  # fmt: skip
    """The coefficients that each element sees: c (1 + alpha u), u as in ``padenet/core/noise.py``.

    ``own``: a and d once more, as ``in_threads`` has them. NOISE 2: memory holds
    (..., middle, minor), the shape says (..., minor, middle).
    """
    if NOISE == 0:
        return a, d
    else:
        return _with_noise(a, d, own, offset, seed, alpha, middle, minor, FORM, M, N, NOISE, NVIDIA)


@triton.jit
def _with_noise(
    a, d, own, offset, seed, alpha, middle, minor, FORM: tl.constexpr, M: tl.constexpr,
    N: tl.constexpr, NOISE: tl.constexpr, NVIDIA: tl.constexpr,
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
        f = _slot(w0, w1, w2, w3, i % 10, NVIDIA)
        c = a[i] if i <= M else d[i - M - CONSTANT]
        c_own = own[i if i <= M else i + 1 - CONSTANT]
        # u = 2 f - 3 + 1/4096
        c = f * (2 * alpha * c) + (c_own - alpha * c_own * (3 - 1 / 4096))
        if i <= M:
            u = u + (c,)
        else:
            v = v + (c,)
    return u, v


@triton.jit
def _slot(w0, w1, w2, w3, S: tl.constexpr, NVIDIA: tl.constexpr):
    """Slot S as the mantissa of a number in [1, 2)."""
    one = tl.full((), 0x3F800000, tl.uint32)
    if S == 8 or S == 9:
        low, high = (w0, w1) if S == 8 else (w2, w3)
        bits = _shifted(low & 0xFF, 11, one, NVIDIA)
        bits = _shifted(high & 0xF, 19, bits, NVIDIA)
    else:
        w = w0 if S // 2 == 0 else w1 if S // 2 == 1 else w2 if S // 2 == 2 else w3
        if S % 2:
            bits = _shifted(w & 0xFFF00, 3, one, NVIDIA)
        else:
            bits = _shifted(w >> 20, 11, one, NVIDIA)
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def _shifted(bits, BY: tl.constexpr, plus, NVIDIA: tl.constexpr):
    """bits 2^BY + plus, on NVIDIA's chips by one instruction, which the compiler would make a
    shift, a mask and a copy of the mask."""
    if NVIDIA:
        TIMES: tl.constexpr = "8" if BY == 3 else "2048" if BY == 11 else "524288"
        return tl.inline_asm_elementwise(
            "mad.lo.u32 $0, $1, " + TIMES + ", $2;", "=r,r,r", [bits, plus],
            dtype=tl.uint32, is_pure=True, pack=1,
        )  # fmt: skip
    else:
        return (bits << BY) + plus


@triton.jit
def _philox(seed, index, DRAW: tl.constexpr):
    k0, k1 = seed.to(tl.uint32), (seed >> 32).to(tl.uint32)
    c0, c1 = index.to(tl.uint32), (index >> 32).to(tl.uint32)
    c2, c3 = tl.full(c0.shape, DRAW, tl.uint32), tl.zeros(c0.shape, tl.uint32)
    m0, m1 = tl.full((), 0xD2511F53, tl.uint64), tl.full((), 0xCD9E8D57, tl.uint64)
    w0, w1 = tl.full((), 0x9E3779B9, tl.uint32), tl.full((), 0xBB67AE85, tl.uint32)
    for _ in tl.static_range(7):
        p0, p1 = c0.to(tl.uint64) * m0, c2.to(tl.uint64) * m1  # one instruction for both halves
        h0, h1 = (p0 >> 32).to(tl.uint32), (p1 >> 32).to(tl.uint32)
        c0, c1, c2, c3 = h1 ^ c1 ^ k0, p1.to(tl.uint32), h0 ^ c3 ^ k1, p0.to(tl.uint32)
        k0, k1 = k0 + w0, k1 + w1
    return c0, c1, c2, c3
