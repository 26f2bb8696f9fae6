"""Numbers ``f 2^e`` whose products, quotients and sums neither overflow nor underflow.

In plain operations that every transform of torch's can take. Both parts are tensors of one float
dtype; e is whole and carries no gradient. Infinity is 2^65536: sums keep the leading terms,
quotients cancel, and what remains is the limit.
"""

from collections.abc import Sequence
from functools import reduce

import torch
from torch import Tensor

INFINITE, NOTHING = 2.0**16, -(2.0**22)  # the exponents of infinity and of zero


class Scaled:
    def __init__(self, f: Tensor, e: Tensor | float = 0.0):
        size = f.abs()
        shift = size.clamp(min=torch.finfo(f.dtype).tiny).log2().round()  # never detached: legacy
        shift = torch.where(size.isfinite(), shift, 0.0)  # vmap cannot, and round has no gradient
        self.f = torch.where(size.isinf(), f.sign(), f * torch.exp2(-shift))
        e = torch.where(size.isinf(), INFINITE, shift + e)
        self.e = torch.where(size == 0, NOTHING, e)

    def __mul__(self, other: "Scaled") -> "Scaled":
        return Scaled(self.f * other.f, self.e + other.e)

    def times(self, v: Tensor | float) -> "Scaled":
        """An ordinary number; no operator, which torch.compile would take for one of tensors."""
        return Scaled(self.f * v, self.e)

    def __truediv__(self, other: "Scaled") -> "Scaled":
        return Scaled(self.f / other.f, self.e - other.e)

    def __add__(self, other: "Scaled | float") -> "Scaled":
        if not isinstance(other, Scaled):
            other = Scaled(torch.full_like(self.f, other))
        e = torch.maximum(self.e, other.e)
        return Scaled(self.f * torch.exp2(self.e - e) + other.f * torch.exp2(other.e - e), e)

    def __sub__(self, other: "Scaled") -> "Scaled":
        return self + other.times(-1.0)

    def __pow__(self, k: int) -> "Scaled":
        return Scaled(self.f**k, k * self.e)

    def abs(self) -> "Scaled":
        return Scaled(self.f.abs(), self.e)

    def sign(self) -> Tensor:
        return self.f.sign()

    def value(self) -> Tensor:
        """As a float, infinite where it is too large for one."""
        most = 2044.0 if self.f.dtype == torch.float64 else 252.0
        e = self.e.clamp(-most, most)
        half = (e / 2).round()
        return self.f * torch.exp2(half) * torch.exp2(e - half)


def polynomial(c: Sequence[Scaled], z: Scaled) -> Scaled:
    """``sum_j c_j z^j`` by Horner's rule, in units of the largest term."""
    if not c:
        return Scaled(torch.zeros_like(z.f))
    tops = [v.e + j * z.e for j, v in enumerate(c)]
    top = reduce(torch.maximum, tops)
    y = torch.zeros_like(z.f)
    for v, e in zip(reversed(c), reversed(tops), strict=True):
        y = y * z.f + v.f * torch.exp2(e - top)
    return Scaled(y, top)
