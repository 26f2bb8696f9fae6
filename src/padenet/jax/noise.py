"""The noise of ``padenet.core.noise`` in words of 32 bits: JAX has no others unless told to.

A key is 64 bits, as two uint32 with the high word first: what ``jax.random.key(k)`` holds is the
number k, and gives the noise that torch's units draw from the key k.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from padenet.core.noise import A_DRAW, ROUNDS

Array = Any
Words = tuple[Array, Array, Array, Array]


def words_of(key: Any) -> Array:
    """uint32 (2,) of a key of ``jax.random``, old or new, or of a whole number."""
    if isinstance(key, int):
        return jnp.array([key >> 32 & 0xFFFFFFFF, key & 0xFFFFFFFF], jnp.uint32)
    dtype = getattr(key, "dtype", None)
    if dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key) and key.shape == ():
        data = jax.random.key_data(key)
        return data if data.shape == (2,) else jax.random.bits(key, (2,), jnp.uint32)
    if dtype == jnp.uint32 and key.shape in ((2,), (4,)):
        return key if key.shape == (2,) else jax.random.bits(key, (2,), jnp.uint32)
    raise TypeError(f"key={key!r} must be one key, e.g. jax.random.key(0), or a whole number.")


def uniform(key: Array, shape: tuple[int, ...], count: int, dtype: Any) -> list[Array]:
    """``count`` arrays of ``shape``, the noises of every element, inside (-1, 1)."""
    low, high = _index(shape)
    found: list[Array] = []
    for i in range(-(-count // A_DRAW)):
        zero = jnp.zeros_like(low)
        words = _philox(key, (low, high, zero + np.uint32(i), zero))
        found += [_slot(words, s) for s in range(A_DRAW)]
    odd = (2 * v.astype(jnp.int32) + 1 for v in found[:count])
    return [v.astype(dtype) / 4096 - 1 for v in odd]


def _index(shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Of each element as its shape orders it: the low word and the high one."""
    low = high = jnp.zeros(shape, jnp.uint32)
    for d, size in enumerate(shape):  # index = index * size + place
        place = lax.broadcasted_iota(jnp.uint32, shape, d)
        top, bottom = _multiply(low, _word(size))
        low = bottom + place
        high = high * _word(size) + top + (low < place).astype(jnp.uint32)
    return low, high


def _word(size: Any) -> Array:
    return jnp.asarray(size).astype(jnp.uint32)


def _multiply(x: Array, y: Array) -> tuple[Array, Array]:
    """High and low word of a product, by halves."""
    x1, x0, y1, y0 = x >> 16, x & 0xFFFF, y >> 16, y & 0xFFFF
    low, a, b = x0 * y0, x1 * y0, x0 * y1
    middle = (low >> 16) + (a & 0xFFFF) + (b & 0xFFFF)
    return x1 * y1 + (a >> 16) + (b >> 16) + (middle >> 16), x * y


def _philox(key: Array, counter: Words) -> Words:
    k1, k0 = key[0], key[1]
    c0, c1, c2, c3 = counter
    for _ in range(ROUNDS):
        high0, low0 = _multiply(c0, np.uint32(0xD2511F53))
        high1, low1 = _multiply(c2, np.uint32(0xCD9E8D57))
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = k0 + np.uint32(0x9E3779B9), k1 + np.uint32(0xBB67AE85)
    return c0, c1, c2, c3


def _slot(words: Words, s: int) -> Array:
    if s < 8:
        return (words[s // 2] >> (8 if s % 2 else 20)) & 0xFFF
    low, high = words[2 * (s - 8)], words[2 * (s - 8) + 1]
    return (low & 0xFF) | ((high & 0x0F) << 8)
