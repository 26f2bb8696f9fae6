"""The kernels as operators for ``torch.compile``.

``gpu_forward`` is plain operations, which the compiler fuses with their neighbours, and has the
kernel ``gpu_backward`` as its backward.
"""

from typing import Any

import torch
from torch import Tensor

from padenet import reference
from padenet.kernels import gpu
from padenet.spec import Spec


@torch.library.triton_op("padenet::gpu_forward", mutates_args=())
def _forward_op(
    x: Tensor, a: Tensor, b: Tensor, key: Tensor | None,
    form: str, q: float, channel_dim: int, alpha: float,
) -> Tensor:  # fmt: skip
    return reference.forward(x, a, b, key, Spec(form, q, channel_dim, alpha))


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, a, b, key, *ctx.spec = inputs
    ctx.save_for_backward(x, a, b, key)


def _backward_of_op(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
    grads = torch.ops.padenet.gpu_backward(dy, *ctx.saved_tensors, *ctx.spec)
    return *grads, None, None, None, None, None


_forward_op.register_autograd(_backward_of_op, setup_context=_save)


@torch.library.custom_op("padenet::gpu_backward", mutates_args=())
def _backward_op(
    dy: Tensor, x: Tensor, a: Tensor, b: Tensor, key: Tensor | None,
    form: str, q: float, channel_dim: int, alpha: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    return gpu.backward(dy, x, a, b, key, Spec(form, q, channel_dim, alpha))


@_backward_op.register_fake
def _(dy, x, a, b, key, form, q, channel_dim, alpha):  # type: ignore[no-untyped-def]
    return torch.empty_like(x), a.new_empty(a.shape), b.new_empty(b.shape)
