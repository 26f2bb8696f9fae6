"""The noise as ``padenet.core.noise`` describes it, on Python's integers."""

import math

MASK = 0xFFFFFFFF


def philox(key, counter, rounds=7):
    """Philox4x32 on Python's integers, written from the paper."""
    k0, k1 = key
    c = list(counter)
    for _ in range(rounds):
        p0, p1 = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [(p1 >> 32) ^ c[1] ^ k0, p1 & MASK, (p0 >> 32) ^ c[3] ^ k1, p0 & MASK]
        k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
    return c


def noises(key, index, count):
    """The ``count`` noises of element ``index``, from the description in ``padenet.core.noise``."""
    found = []
    for draw in range(math.ceil(count / 10)):
        w = philox((key & MASK, key >> 32), (index & MASK, index >> 32, draw, 0))
        k = [part for v in w for part in (v >> 20, (v >> 8) & 0xFFF)]
        k += [(w[0] & 0xFF) | ((w[1] & 0xF) << 8), (w[2] & 0xFF) | ((w[3] & 0xF) << 8)]
        found += [(2 * v + 1) / 4096 - 1 for v in k]
    return found[:count]
