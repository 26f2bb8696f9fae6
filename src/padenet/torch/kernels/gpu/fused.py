r"""Forward in plain operations, for a compiler to fuse with its neighbours.

Contract
    x       any shape and strides; float32, bfloat16 or float16, computed in float32.
    a, b    as for the kernels; beyond the edge coefficients up to 2^56 in size.
    y       in the dtype of x, rounded once; right at every x, at infinity the limit.

No branch and no gather: every element is computed in two ways, and its size selects one.

    |x| <= edge     P and A by Horner's rule in x
    |x| >  edge     P t^D and A t^D with t = 1/x, from the constant term up: y <- y t + c_j

D is the highest power that has a coefficient other than zero, in P or in A. Only the device knows
it, so that steps j > D are there too and multiply by 1. F = P t^D / (Q t^D), with no power of x to
multiply back. Q t^D is q t^D + |A t^D| with the sign of t^D, which q t^D has even as a zero.
SCALE times all coefficients keeps both from underflow wherever F is finite, as long as the
coefficient of x^D is 2^-67 or more.

``b[0]`` is b_1, except in ``offset``, where it is b_0.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from padenet.core.forms import Spec

EDGE = 2.0**30  # x^D at the edge
SCALE = 2.0**69
RUN = 32  # elements in a row of one unit, the threads of a warp
VERSION = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:16]
"""An argument of the operator: torch's cache of compiled graphs must know what it stands for."""

Polynomial = Sequence[Any]  # coefficients from the constant term on: tensors, the first or a number


def teach_inductor() -> bool:
    """Have inductor take the operator ``gpu_forward_fused`` apart into ``forward``, if it can.

    Loads inductor, which is large: for when a compile has begun.
    """
    try:
        from torch._inductor.decomposition import decompositions, fast_random_decomps
    except ImportError:  # a torch that keeps its table elsewhere: the operator calls the kernel
        return False
    operator = torch.ops.padenet.gpu_forward_fused.default
    if operator not in decompositions:
        decompositions[operator] = lambda x, a, b, *spec: forward(x, a, b, Spec(*spec[:3]))
        fast_random_decomps.cache_clear()  # a copy of the table
    return True


def suits(x: Tensor, a: Tensor, spec: Spec) -> bool:
    """Whether neighbours in memory share a unit: with one for each, fetching coefficients rules."""
    if a.ndim == 1:
        return True
    dim = spec.channel_dim % x.ndim
    return x.shape[dim] // a.shape[0] * x.stride(dim) >= RUN


def forward(x: Tensor, a: Tensor, b: Tensor, spec: Spec) -> Tensor:
    top, bottom = _spread(a, x, spec), _spread(b, x, spec)
    degree = max(len(top) - 1, len(bottom) - spec.constant)
    u = x.float()
    if degree == 0:
        Q = spec.q + bottom[0].abs() if bottom else spec.q
        return torch.where(u.isnan(), u, top[0] / Q).to(x.dtype)

    is_far = u.abs() > EDGE ** (1 / degree)
    first = 1 - spec.constant  # the power that bottom[0] multiplies
    steps = _steps(u.reciprocal(), top, bottom, degree, first)
    P = torch.where(is_far, _ascend(top, steps), _horner(top, u))
    if spec.has_poles:
        one = [spec.q + bottom[0], *bottom[1:]] if spec.constant else [spec.q, *bottom]
        Q = torch.where(is_far, _ascend(one, steps, keep_sign=True), _horner(one, u))
        return (P / Q).to(x.dtype)

    Q = q = torch.where(is_far, _ascend([spec.q], steps), spec.q)
    if bottom:
        if spec.flags.per_term:
            bottom = [c.abs() for c in bottom]
            u, steps = u.abs(), [t.abs() for t in steps]
        near = _horner(bottom, u) * u if first else _horner(bottom, u)
        A = torch.where(is_far, _ascend(bottom, steps[first:]), near)
        Q = q + A.copysign(q)
    return (P / Q).to(x.dtype)


def _spread(c: Tensor, x: Tensor, spec: Spec) -> list[Tensor]:
    """Each coefficient in float32 and a shape that broadcasts against ``x``."""
    columns = c.float().unbind(-1)
    if c.ndim == 1:
        return list(columns)
    dim, groups = spec.channel_dim % x.ndim, c.shape[0]
    channels, tail = x.shape[dim], [1] * (x.ndim - dim - 1)
    return [v[:, None].expand(groups, channels // groups).reshape(channels, *tail) for v in columns]


def _steps(
    t: Tensor, top: Sequence[Tensor], bottom: Sequence[Tensor], degree: int, first: int
) -> list[Tensor]:
    """What step j = 1, 2, ... multiplies by: ``t`` up to D, 1 above."""
    step: Any = 1.0
    steps: list[Tensor] = []
    for j in range(degree, 0, -1):
        here = [c[i] != 0 for c, i in ((top, j), (bottom, j - first)) if i < len(c)]
        step = torch.where(here[0] | here[-1], t, step)
        steps.insert(0, step)
    return steps


def _horner(c: Polynomial, x: Tensor) -> Any:
    y = c[-1]
    for v in reversed(c[:-1]):
        y = y * x + v
    return y


def _ascend(c: Polynomial, steps: Sequence[Tensor], keep_sign: bool = False) -> Any:
    """SCALE times the polynomial; ``keep_sign`` of a zero too, which + 0 loses."""
    y = c[0] * SCALE
    for j, t in enumerate(steps, 1):
        y = y * t
        if j < len(c):
            sum_ = y + c[j] * SCALE
            y = torch.where(c[j] == 0, y, sum_) if keep_sign else sum_
    return y
