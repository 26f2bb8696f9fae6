r"""Uniform noise from a counter: the same numbers on every device, in any order, never stored.

Philox4x32 with 7 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011: the
fewest that pass BigCrush) turns a 64-bit key and a counter into 128 bits, which hold ten noises
of 12 bits. The counter of an element is its index in the tensor as its shape orders it, whatever
its strides; draw ``i`` of the element gives the noises ``10 i`` to ``10 i + 9``.

    slot 0 .. 7   bits 31-20 (even slots) and 19-8 (odd slots) of words 0, 0, 1, 1, 2, 2, 3, 3
    slot 8        bits 7-0 of word 0, then bits 3-0 of word 1 above them
    slot 9        bits 7-0 of word 2, then bits 3-0 of word 3 above them

    u = (2 k + 1) / 4096 - 1,   k = 0 .. 4095:   symmetric, inside (-1, 1)

Integers here are arrays or tensors of int64, whose operators all libraries share.
"""

from typing import Any

Array = Any

ROUNDS = 7
A_DRAW = 10
_MASK = 0xFFFFFFFF


def philox(key: Array, counter: tuple[Array, ...], rounds: int = ROUNDS) -> tuple[Array, ...]:
    """Four 32-bit words, as int64, of ``key`` (int64) and four 32-bit counter words (int64)."""
    k0, k1 = key & _MASK, (key >> 32) & _MASK
    c0, c1, c2, c3 = counter
    for _ in range(rounds):
        p0, p1 = c0 * 0xD2511F53, c2 * 0xCD9E8D57
        c0, c1, c2, c3 = (
            ((p1 >> 32) & _MASK) ^ c1 ^ k0,
            p1 & _MASK,
            ((p0 >> 32) & _MASK) ^ c3 ^ k1,
            p0 & _MASK,
        )
        k0, k1 = (k0 + 0x9E3779B9) & _MASK, (k1 + 0xBB67AE85) & _MASK
    return c0, c1, c2, c3


def draw(key: Array, index: Array, count: int) -> list[Array]:
    """``2 k + 1`` of ``count`` noises for every element, given its index: u is that / 4096 - 1."""
    found: list[Array] = []
    zero = index * 0
    for i in range(-(-count // A_DRAW)):
        words = philox(key, (index & _MASK, index >> 32, zero + i, zero))
        found += [2 * _slot(words, s) + 1 for s in range(A_DRAW)]
    return found[:count]


def _slot(words: tuple[Array, ...], s: int) -> Array:
    if s < 8:
        return (words[s // 2] >> (8 if s % 2 else 20)) & 0xFFF
    low, high = words[2 * (s - 8)], words[2 * (s - 8) + 1]
    return (low & 0xFF) | ((high & 0x0F) << 8)
