"""Words of memory as the numbers in them: float32 to compute with, float64 for far elements."""

import os

import triton
import triton.language as tl

INTERPRETED = tl.constexpr(os.environ.get("TRITON_INTERPRET") == "1")


@triton.jit
def part(words, part: tl.constexpr, PARTS: tl.constexpr, ptr):
    """One element of each word, in float32."""
    if PARTS == 1:
        return widen(words).to(tl.float32) if INTERPRETED else words.to(tl.float32)
    elif ptr.dtype.element_ty == tl.bfloat16:
        bits = words & -65536 if part else words << 16
        return bits.to(tl.float32, bitcast=True)
    else:
        half = words >> 16 if part else words
        return half.to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32)


@triton.jit
def packed(low, high, ptr, NVIDIA: tl.constexpr):
    if NVIDIA and ptr.dtype.element_ty == tl.bfloat16:
        return tl.inline_asm_elementwise(
            "cvt.rn.bf16x2.f32 $0, $2, $1;", "=r,f,f", [low, high], tl.int32, is_pure=True, pack=1
        )
    elif NVIDIA:
        return tl.inline_asm_elementwise(
            "cvt.rn.f16x2.f32 $0, $2, $1;", "=r,f,f", [low, high], tl.int32, is_pure=True, pack=1
        )
    else:
        low = narrow(low, ptr).to(tl.uint16, bitcast=True).to(tl.int32)
        high = narrow(high, ptr).to(tl.int16, bitcast=True).to(tl.int32)
        return low | (high << 16)


@triton.jit
def narrow(v, ptr):
    """v in the type that ``ptr`` points to, rounded to nearest: the interpreter would cut."""
    if INTERPRETED and ptr.dtype.element_ty == tl.bfloat16:
        bits = v.to(tl.float32).to(tl.int32, bitcast=True)
        rounded = bits + 0x7FFF + ((bits >> 16) & 1)
        bits = tl.where(v == v, rounded, bits | 0x400000)
        return (bits >> 16).to(tl.int16).to(tl.bfloat16, bitcast=True)
    else:
        return v.to(tl.float32).to(ptr.dtype.element_ty)


@triton.jit
def split(t, DEEP: tl.constexpr, WIDE: tl.constexpr):
    """The four neighbours that a thread holds, one by one."""
    even, odd = tl.split(tl.reshape(t, (DEEP, WIDE, 2, 2)))
    e0, e2 = tl.split(even)
    e1, e3 = tl.split(odd)
    return e0, e1, e2, e3


@triton.jit
def joined(four, DEEP: tl.constexpr, WIDE: tl.constexpr):
    """What ``_split`` took apart."""
    t = tl.join(tl.join(four[0], four[2]), tl.join(four[1], four[3]))
    return tl.reshape(t, (DEEP, 4 * WIDE))


@triton.jit
def widen(v):
    """v in float64; the interpreter would lose subnormal numbers of bfloat16."""
    if INTERPRETED and v.dtype == tl.bfloat16:
        bits = v.to(tl.int16, bitcast=True).to(tl.int32) << 16
        return bits.to(tl.float32, bitcast=True).to(tl.float64)
    else:
        return v.to(tl.float64)
