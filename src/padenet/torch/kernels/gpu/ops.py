"""The kernels as operators for ``torch.compile``, and what becomes of them there:

    gpu_forward         a call of the kernel: with noise, or where ``fused.suits`` says no
    gpu_forward_fused   taken apart by inductor (``fused.py``), called by other compilers
    gpu_backward        a call of the kernel, the backward of both

No derivative of ``gpu_backward`` is known: a second one has to be taken in eager mode.
"""

from typing import Any

import torch
from torch import Tensor

from padenet.core.forms import Spec
from padenet.torch.kernels import gpu


@torch.library.custom_op("padenet::gpu_forward", mutates_args=())
def _forward_op(
    x: Tensor, a: Tensor, b: Tensor, key: Tensor | None,
    form: str, q: float, channel_dim: int, alpha: float,
) -> Tensor:  # fmt: skip
    return gpu.forward(x, a, b, key, Spec(form, q, channel_dim, alpha))


@_forward_op.register_fake
def _(x, a, b, key, form, q, channel_dim, alpha):  # type: ignore[no-untyped-def]
    return torch.empty_like(x)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, a, b, key, *ctx.spec = inputs
    ctx.save_for_backward(x, a, b, key)


def _backward_of_op(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
    grads = torch.ops.padenet.gpu_backward(dy, *ctx.saved_tensors, *ctx.spec)
    return *grads, None, None, None, None, None


_forward_op.register_autograd(_backward_of_op, setup_context=_save)


@torch.library.custom_op("padenet::gpu_forward_fused", mutates_args=())
def _fused_op(
    x: Tensor, a: Tensor, b: Tensor,
    form: str, q: float, channel_dim: int, version: str,
) -> Tensor:  # fmt: skip
    return gpu.forward(x, a, b, None, Spec(form, q, channel_dim))


@_fused_op.register_fake
def _(x, a, b, form, q, channel_dim, version):  # type: ignore[no-untyped-def]
    return torch.empty_like(x)


def _save_fused(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, a, b, *ctx.spec, _ = inputs
    ctx.save_for_backward(x, a, b)


def _backward_of_fused(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
    grads = torch.ops.padenet.gpu_backward(dy, *ctx.saved_tensors, None, *ctx.spec, 0.0)
    return *grads, None, None, None, None


_fused_op.register_autograd(_backward_of_fused, setup_context=_save_fused)


@torch.library.custom_op("padenet::gpu_backward", mutates_args=())
def _backward_op(
    dy: Tensor, x: Tensor, a: Tensor, b: Tensor, key: Tensor | None,
    form: str, q: float, channel_dim: int, alpha: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    return gpu.backward(dy, x, a, b, key, Spec(form, q, channel_dim, alpha))


@_backward_op.register_fake
def _(dy, x, a, b, key, form, q, channel_dim, alpha):  # type: ignore[no-untyped-def]
    return torch.empty_like(x), a.new_empty(a.shape), b.new_empty(b.shape)
