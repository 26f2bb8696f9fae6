"""Numbers ``f 2^e`` whose products, quotients and sums neither overflow nor underflow.

In operations that every array library has and can transform; ``xp`` is its namespace. Both parts
are arrays of one float dtype; e is whole and carries no gradient. Infinity is 2^65536: sums keep
the leading terms, quotients cancel, and what remains is the limit.
"""

from collections.abc import Sequence
from functools import reduce
from typing import Any

Array = Any
INFINITE, NOTHING = 2.0**16, -(2.0**22)  # the exponents of infinity and of zero


class Scaled:
    def __init__(self, xp: Any, f: Array, e: Array | float = 0.0):
        size = xp.abs(f)
        tiny = float(xp.finfo(f.dtype).tiny)
        shift = xp.round(xp.log2(xp.clip(size, tiny, 1 / tiny)))  # never detached: torch's legacy
        shift = xp.where(xp.isfinite(size), shift, 0.0)  # vmap cannot; round has no gradient
        infinite = xp.isinf(size)
        self.xp = xp
        self.f = xp.where(infinite, xp.sign(f), f * xp.exp2(-shift))
        self.e = xp.where(size == 0, NOTHING, xp.where(infinite, INFINITE, shift + e))

    def __mul__(self, other: "Scaled") -> "Scaled":
        return Scaled(self.xp, self.f * other.f, self.e + other.e)

    def times(self, v: Array | float) -> "Scaled":
        """An ordinary number; no operator, which torch.compile would take for one of tensors."""
        return Scaled(self.xp, self.f * v, self.e)

    def __truediv__(self, other: "Scaled") -> "Scaled":
        return Scaled(self.xp, self.f / other.f, self.e - other.e)

    def __add__(self, other: "Scaled | float") -> "Scaled":
        xp = self.xp
        if not isinstance(other, Scaled):
            other = Scaled(xp, xp.full_like(self.f, other))
        e = xp.maximum(self.e, other.e)
        return Scaled(xp, self.f * xp.exp2(self.e - e) + other.f * xp.exp2(other.e - e), e)

    def __sub__(self, other: "Scaled") -> "Scaled":
        return self + other.times(-1.0)

    def __pow__(self, k: int) -> "Scaled":
        return Scaled(self.xp, self.f**k, k * self.e)

    def abs(self) -> "Scaled":
        return Scaled(self.xp, self.xp.abs(self.f), self.e)

    def sign(self) -> Array:
        return self.xp.sign(self.f)

    def value(self) -> Array:
        """As a float, infinite where it is too large for one."""
        xp = self.xp
        most = 2044.0 if xp.finfo(self.f.dtype).bits == 64 else 252.0
        e = xp.clip(self.e, -most, most)
        half = xp.round(e / 2)
        return self.f * xp.exp2(half) * xp.exp2(e - half)


def polynomial(c: Sequence[Scaled], z: Scaled) -> Scaled:
    """``sum_j c_j z^j`` by Horner's rule, in units of the largest term."""
    xp = z.xp
    if not c:
        return Scaled(xp, xp.zeros_like(z.f))
    tops = [v.e + j * z.e for j, v in enumerate(c)]
    top = reduce(xp.maximum, tops)
    y = xp.zeros_like(z.f)
    for v, e in zip(reversed(c), reversed(tops), strict=True):
        y = y * z.f + v.f * xp.exp2(e - top)
    return Scaled(xp, y, top)
