"""The C++ kernel (``native/``) on CPU tensors: lays out the problem for ``padenet.core.native``.

Contract
    x       dense in some order of its dims, read in memory order; anything else is copied first.
    dy      laid out as x, or one number expanded (all strides 0); anything else is copied.
    y, dx   laid out as x. Nothing else of the size of x is allocated.
    a, b    any float dtype, computed in float32 (float64 where x is float64).
    order   sums in fixed chunks added in fixed order: the same bits for any number of threads.
"""

import math

import torch
from torch import Tensor

from padenet.core import native
from padenet.core.forms import FORMS, Spec
from padenet.core.native import MAX_DEGREE, MAX_RANK, missing
from padenet.torch.kernels.layout import is_one_number, memory_order, same_layout

DTYPES = {getattr(torch, name): i for i, name in enumerate(native.DTYPES)}
_is_compiling = torch.compiler.is_compiling


def refuses(x: Tensor, a: Tensor, b: Tensor) -> str | None:
    """Why the kernel cannot take these tensors, or None."""
    if not x.is_cpu:
        return f"x is on {x.device}, the kernel needs 'cpu'"
    if a.shape[-1] > MAX_DEGREE + 1 or b.shape[-1] > MAX_DEGREE:
        return f"a and b have {a.shape[-1]} and {b.shape[-1]} values, degrees go up to {MAX_DEGREE}"
    if x.dim() > MAX_RANK:
        return f"x has {x.dim()} dims, the kernel takes {MAX_RANK}"
    return missing()


def forward(x: Tensor, a: Tensor, b: Tensor, key: Tensor | None, spec: Spec) -> Tensor:
    if _is_compiling():
        return torch.ops.padenet.native_forward(x, a, b, key, *spec)
    order = memory_order(x)
    if order is None:
        return forward(x.clone(), a, b, key, spec)
    y = torch.empty_like(x)
    a, b = a.contiguous(), b.contiguous()
    _call("padenet_forward", x, y, a, b, order, key, spec)
    return y


def backward(
    dy: Tensor, x: Tensor, a: Tensor, b: Tensor, key: Tensor | None, spec: Spec
) -> tuple[Tensor, Tensor, Tensor]:
    if _is_compiling():
        return torch.ops.padenet.native_backward(dy, x, a, b, key, *spec)
    order = memory_order(x)
    if order is None:
        return backward(dy, x.clone(), a, b, key, spec)
    dx = torch.empty_like(x)
    one_number = False
    if not same_layout(dy, x):
        one_number = is_one_number(dy)
        if not one_number:
            dy = torch.empty_like(x).copy_(dy)
    a, b = a.contiguous(), b.contiguous()
    da, db = torch.empty_like(a), torch.empty_like(b)
    gradients = dy.data_ptr(), da.data_ptr(), db.data_ptr()
    _call("padenet_backward", x, dx, a, b, order, key, spec, gradients, one_number)
    return dx, da, db


def _call(
    entry: str,
    x: Tensor,
    out: Tensor,
    a: Tensor,
    b: Tensor,
    order: tuple[int, ...],
    key: Tensor | None,
    spec: Spec,
    gradients: tuple[int, int, int] = (0, 0, 0),  # addresses of dy, da, db
    one_number: bool = False,
) -> None:
    """Lay x out as a matrix, and run."""
    outer, channels, inner, groups = 1, 1, x.numel(), 1
    if a.dim() == 2 and a.size(0) > 1:
        c = spec.channel_dim % x.dim()
        groups, channels = a.size(0), x.size(c)
        inner = x.stride(c) if order else math.prod(x.shape[c + 1 :])
        outer = x.numel() // max(channels * inner, 1)
    dy, da, db = gradients
    dims: list[tuple[int, int]] = []
    if key is not None and order:
        by_shape = torch.empty(x.shape, device="meta").stride()
        dims = [(x.size(d), by_shape[d]) for d in order]
    native.run(
        entry,
        (x.data_ptr(), dy, out.data_ptr(), a.data_ptr(), b.data_ptr(), da, db),
        (outer, channels, inner, groups),
        (DTYPES[x.dtype], DTYPES[a.dtype]),
        (a.numel() // groups - 1, b.numel() // groups - FORMS[spec.form].constant),
        spec,
        torch.get_num_threads(),
        one_number,
        None if key is None else int(key),
        dims,
    )


def thread_count() -> int:
    """How many threads the library may use."""
    return 1 if native.is_forked() else torch.get_num_threads()


@torch.library.custom_op("padenet::native_forward", mutates_args=())
def _forward_op(
    x: Tensor, a: Tensor, b: Tensor, key: Tensor | None,
    form: str, q: float, channel_dim: int, alpha: float,
) -> Tensor:  # fmt: skip
    return forward(x, a, b, key, Spec(form, q, channel_dim, alpha))


@_forward_op.register_fake
def _(x, a, b, key, form, q, channel_dim, alpha):  # type: ignore[no-untyped-def]
    return torch.empty_like(x)


@torch.library.custom_op("padenet::native_backward", mutates_args=())
def _backward_op(
    dy: Tensor, x: Tensor, a: Tensor, b: Tensor, key: Tensor | None,
    form: str, q: float, channel_dim: int, alpha: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    return backward(dy, x, a, b, key, Spec(form, q, channel_dim, alpha))


@_backward_op.register_fake
def _(dy, x, a, b, key, form, q, channel_dim, alpha):  # type: ignore[no-untyped-def]
    return torch.empty_like(x), a.new_empty(a.shape), b.new_empty(b.shape)
