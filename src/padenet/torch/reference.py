"""The formula of ``padenet.core.formula`` on tensors: every kernel is judged by it.

float64 computes in float64, every other dtype in float32. Works under every torch transform.
"""

import torch
from torch import Tensor

from padenet.core.forms import Spec
from padenet.core.formula import Arrays, Unit
from padenet.torch.noise import uniform
from padenet.torch.tracing import is_plain


def compute_dtype(x: Tensor) -> torch.dtype:
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def forward(x: Tensor, a: Tensor, b: Tensor, key: Tensor | None, spec: Spec) -> Tensor:
    y: Tensor = _unit(x, a, b, key, spec).F()
    return y.to(x.dtype)


def backward(
    dy: Tensor, x: Tensor, a: Tensor, b: Tensor, key: Tensor | None, spec: Spec
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of ``sum(dy * F(x))`` with respect to ``x``, ``a`` and ``b``."""
    dx, da, db = _unit(x, a, b, key, spec).gradients(dy.to(compute_dtype(x)))
    db = torch.zeros_like(b) if db is None else db.reshape(b.shape).to(b.dtype)
    return dx.to(x.dtype), da.reshape(a.shape).to(a.dtype).contiguous(), db.contiguous()


def jvp(
    dx: Tensor | None,
    da: Tensor | None,
    db: Tensor | None,
    x: Tensor,
    a: Tensor,
    b: Tensor,
    key: Tensor | None,
    spec: Spec,
) -> Tensor:
    """The change of ``F(x)`` along ``(dx, da, db)``; None stands for zero."""
    along = (None if d is None else d.to(compute_dtype(x)) for d in (dx, da, db))
    dy: Tensor = _unit(x, a, b, key, spec).change(*along)
    return dy.to(x.dtype)


def _unit(x: Tensor, a: Tensor, b: Tensor, key: Tensor | None, spec: Spec) -> Unit:
    dtype = compute_dtype(x)
    noise = None
    if key is not None:
        noise = [u.to(dtype) for u in uniform(key, x.shape, a.shape[-1] + b.shape[-1], x.device)]
    return Unit(ARRAYS, x.to(dtype), a.to(dtype), b.to(dtype), spec, noise)


def _widen(v: Tensor) -> Tensor:
    return v.to(torch.float32 if v.device.type == "mps" else torch.float64)  # it has no other


def _none_of(v: Tensor) -> bool:
    can_look = v.device.type == "cpu" and is_plain(v) and not torch.compiler.is_compiling()
    return can_look and not bool(v.any())


ARRAYS = Arrays(torch, torch.movedim, _widen, Tensor.detach, _none_of)
