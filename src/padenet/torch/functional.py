"""``rational(x, a, b)``: the one differentiable entry point. Checks, dispatches, nothing else.

Three ways lead through it, and all give the same numbers:

    eager, torch.compile     ``_Rational``: kernels, or where torch looks on (modes, subclasses)
                             the same in plain operations; compiled for a GPU, operators
    torch.func, dual level   ``_Transformable``: hand-derived, in operations torch can transform
    torch.func in a compile, the plain formula; torch loses the second of two forward derivatives
    forward over forward     of a Function

What is exported or traced by torch.jit is the short formula of ``exporting``, the same up to
rounding; ``torch.fx`` records the call.
"""

from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.fx import Proxy

from padenet.core.forms import Spec, check_groups, check_shapes, check_spec
from padenet.core.native import missing
from padenet.torch import reference
from padenet.torch.deploy import exporting
from padenet.torch.kernels import gpu, native, pick
from padenet.torch.kernels.gpu import fused
from padenet.torch.tracing import (
    BEFORE_2_12,
    forward_levels,
    is_plain,
    is_recording,
    is_transforming,
    record_call,
)

# torch.compile asks once, while it traces, and keeps the answer.
for _ask in (missing, gpu.missing, gpu.refuses_device, fused.teach_inductor):
    _ask._dynamo_marked_constant = True  # type: ignore

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
LAYOUTS = (torch.strided, torch.jagged)


def rational(
    x: Tensor,
    a: Tensor,
    b: Tensor,
    *,
    form: str = "safe",
    q: float = 1.0,
    channel_dim: int = 1,
) -> Tensor:
    r"""Padé activation ``P(x) / Q(x)``, elementwise, right for every finite ``x``.

        P(x) = a_0 + a_1 x + ... + a_m x^m
        Q(x) = q + |b_1 x + ... + b_n x^n|          form="safe"
             = 1 + |b_1 x| + ... + |b_n x^n|        form="abs_terms"
             = 1 + b_1 x + ... + b_n x^n            form="free" (may have poles)
             = q + |b_0 + b_1 x + ... + b_n x^n|    form="offset"

    Args:
        x: Input of any shape, layout and float dtype.
        a: Numerator ``(m + 1,)``, constant term first, or ``(groups, m + 1)``.
        b: Denominator ``(n,)`` from b_1 on, or ``(groups, n)``; ``n + 1`` from b_0 for "offset".
        form: The denominator, by its formula.
        q: The constant of "safe" and "offset", in [1e-6, 1].
        channel_dim: The dim of ``x`` that the groups divide evenly. Unused without groups.

    Returns:
        Tensor with the shape, dtype, device and memory format of ``x``. float16 and bfloat16 are
        computed in float32 and rounded once.
    """
    if isinstance(x, Proxy) or isinstance(a, Proxy) or isinstance(b, Proxy):
        options = {"form": form, "q": q, "channel_dim": channel_dim}
        return record_call(rational, (x, a, b), options)  # type: ignore[return-value]
    check_spec(Spec(form, q, channel_dim))
    return apply(x, a, b, None, Spec(form, float(q), channel_dim))


def randomized(
    x: Tensor,
    a: Tensor,
    b: Tensor,
    key: Tensor | int,
    *,
    alpha: float = 0.01,
    form: str = "safe",
    q: float = 1.0,
    channel_dim: int = 1,
) -> Tensor:
    """``rational`` in which every element of ``x`` sees coefficients ``c (1 + u)`` of its own, with
    ``u ~ U(-alpha, alpha)`` drawn for each element and coefficient.

    Args:
        key: A whole number of 64 bits; equal keys draw equal noise, in every framework.
        alpha: Half width of the noise, in [0, 1]. The rest as for ``rational``.
    """
    spec = Spec(form, q, channel_dim, alpha)
    check_spec(spec)
    if isinstance(key, int):
        key = torch.tensor(key - (key >> 63 << 64), dtype=torch.int64)  # its bits, signed
    return apply(x, a, b, key, spec._replace(q=float(q), alpha=float(alpha)))


def apply(x: Tensor, a: Tensor, b: Tensor, key: Tensor | None, spec: Spec) -> Tensor:
    """``rational`` with noise of half width ``spec.alpha`` drawn from ``key``.

    ``spec`` is taken as checked: a unit does that when it is made, not at every call.
    """
    check(x, a, b, spec)
    if x.layout is torch.jagged:
        return _apply_to_jagged(x, a, b, key, spec)
    if is_plain(x, a, b):
        backend = pick(x, a, b)
        if not torch.is_grad_enabled():
            return backend.forward(x, a, b, key, spec)
        return _apply_to_plain(x, a, b, key, spec, backend)
    compiling = torch.compiler.is_compiling()
    if is_transforming() and not compiling and forward_levels() < 2:
        return _Transformable.apply(x, a, b, key, *spec)
    if is_transforming() or (key is not None and is_recording()):
        return reference.forward(x, a, b, key, spec)
    if is_recording():
        return exporting.forward(x, a, b, spec)
    if compiling and gpu.refuses(x, a, b) is None:
        return _apply_operator(x, a, b, key, spec)
    kernel = compiling and native.refuses(x, a, b) is None
    if compiling and not kernel and BEFORE_2_12:  # whose gradients of a traced Function are wrong
        return reference.forward(x, a, b, key, spec)
    return _Rational.apply(x, a, b, key, spec, native if kernel else reference)


def _apply_to_jagged(x: Any, a: Tensor, b: Tensor, key: Tensor | None, spec: Spec) -> Tensor:
    """On the values of a nested tensor, which know no batch."""
    y = apply(x.values(), a, b, key, spec)
    return torch.nested.nested_tensor_from_jagged(
        y, x.offsets(), x.lengths(), jagged_dim=x._ragged_idx
    )


def _apply_operator(x: Tensor, a: Tensor, b: Tensor, key: Tensor | None, spec: Spec) -> Tensor:
    if key is None and fused.suits(x, a, spec):
        fused.teach_inductor()
        return torch.ops.padenet.gpu_forward_fused(x, a, b, *spec[:3], fused.VERSION)
    return torch.ops.padenet.gpu_forward(x, a, b, key, *spec)


class _Rational(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        a: Tensor,
        b: Tensor,
        key: Tensor | None,
        spec: Spec,
        backend: ModuleType,
    ) -> Tensor:
        ctx.save_for_backward(x, a, b, key)
        ctx.spec, ctx.backend = spec, backend
        return backend.forward(x, a, b, key, spec)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        x, a, b, key = ctx.saved_tensors
        backend = ctx.backend
        if torch.is_grad_enabled() or not is_plain(dy):  # a derivative of this one may follow
            backend = backend if torch.compiler.is_compiling() else reference
        return *backend.backward(dy, x, a, b, key, ctx.spec), None, None, None


# torch's own ``apply``, without the search for transforms in Python around it.
_apply_to_plain = super(torch.autograd.Function, _Rational).apply


class _Transformable(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, a: Tensor, b: Tensor, key: Tensor | None, *spec: Any) -> Tensor:
        backend: ModuleType = pick(x, a, b) if is_plain(x, a, b, key) else reference
        return backend.forward(x, a, b, key, Spec(*spec))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, a, b, key, *spec = inputs  # one by one: a tuple would be a tree to torch.func
        ctx.spec = Spec(*spec)
        ctx.save_for_backward(x, a, b, key)
        ctx.save_for_forward(x, a, b, key)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        x, a, b, key = ctx.saved_tensors
        return *reference.backward(dy, x, a, b, key, ctx.spec), None, *(None for _ in ctx.spec)

    @staticmethod
    def jvp(
        ctx: Any, dx: Tensor | None, da: Tensor | None, db: Tensor | None, *unused: None
    ) -> Tensor:
        x, a, b, key = ctx.saved_tensors
        return reference.jvp(dx, da, db, x, a, b, key, ctx.spec)


def check(x: Tensor, a: Tensor, b: Tensor, spec: Spec) -> None:
    """Raise an error that names what is wrong, its value and the fix."""
    if not (isinstance(x, Tensor) and isinstance(a, Tensor) and isinstance(b, Tensor)):
        kinds = ", ".join(f"{n}: {type(t).__name__}" for n, t in (("x", x), ("a", a), ("b", b)))
        raise TypeError(f"x, a and b must be tensors, got {kinds}. Try torch.as_tensor.")
    if x.dtype not in DTYPES:
        known = ", ".join(str(d).removeprefix("torch.") for d in DTYPES)
        raise TypeError(f"x has dtype {x.dtype}, padenet takes {known}. Try x.float().")
    if x.is_nested and x.layout is not torch.jagged:
        raise TypeError("x is nested, but not jagged. Make it with layout=torch.jagged.")
    if x.layout not in LAYOUTS:
        raise TypeError(f"x has layout {x.layout}, padenet takes dense tensors. Try x.to_dense().")
    dtype = a.dtype
    if dtype != b.dtype or dtype not in DTYPES:
        raise TypeError(
            f"a and b must share one float dtype, got {dtype} and {b.dtype}. "
            "Convert them, e.g. a.float(), b.float()."
        )
    on_cpu = x.is_cpu and a.is_cpu and b.is_cpu  # quicker than to compare devices
    if not on_cpu and not x.device == a.device == b.device:
        raise ValueError(
            f"x is on {x.device} but a and b are on {a.device} and {b.device}. "
            "Move them together, e.g. unit.to(x.device)."
        )
    if torch.jit.is_tracing():  # sizes are tensors, and would be taken for constants with a warning
        return
    if not (a.dim() == 1 == b.dim() and a.numel() and b.numel()):
        check_shapes(a.shape, b.shape, spec)
    if a.dim() == 2:
        _check_groups(x, a.shape[0], spec.channel_dim)


def _check_groups(x: Tensor, groups: int, channel_dim: int) -> None:
    if x.is_nested and -x.ndim <= channel_dim < x.ndim:
        raise TypeError(
            f"x is a nested tensor, which groups={groups} cannot share out. "
            "Apply the unit to x.values(), with the channel_dim that those have."
        )
    check_groups(x.shape, groups, channel_dim)
