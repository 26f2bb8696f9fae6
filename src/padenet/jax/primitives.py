"""Three primitives, each other's derivatives, so that every transformation of JAX applies:

    forward_p     (x, a, b)              -> y
    change_p      (dx, da, db, x, a, b)  -> dy         linear in the changes
    backward_p    (dy, x, a, b)          -> dx, da, db  its transpose

``forward_p`` and ``backward_p`` are the C++ kernel on the CPU; ``change_p``, all three on other
devices, in exports and where the kernel was not built are the formula. What is kept for the
backward is x, a and b. The derivative of a derivative is the formula's, in JAX's own operations.
With noise a key, uint32 (2,), comes last.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
from jax.extend.core import Primitive
from jax.interpreters import ad, mlir

from padenet.core.forms import Spec
from padenet.jax import formula, native, sharding

Array = Any
MARK = {"partitioned": sharding.MARK}  # a parameter of all three


def forward(x: Array, a: Array, b: Array, key: Array | None, spec: Spec) -> Array:
    return forward_p.bind(*align(x, a, b, *_list(key)), spec=spec, **MARK)


def change(
    along: Sequence[Array], x: Array, a: Array, b: Array, key: Array | None, spec: Spec
) -> Array:
    return change_p.bind(*align(*along, x, a, b, *_list(key)), spec=spec, **MARK)


def backward(dy: Array, x: Array, a: Array, b: Array, key: Array | None, spec: Spec) -> list[Array]:
    return backward_p.bind(*align(dy, x, a, b, *_list(key)), spec=spec, **MARK)


def _list(key: Array | None) -> list[Array]:
    return [] if key is None else [key]


def align(*values: Array) -> list[Array]:
    """Inside ``shard_map``: what differs between the devices in one differs in all, so that the
    gradient of what they share is summed over them."""
    axes = [_axes(v) for v in values]
    wanted = frozenset().union(*axes)
    if all(own == wanted for own in axes):
        return list(values)
    return [_vary(v, tuple(sorted(wanted - own))) for v, own in zip(values, axes, strict=True)]


def _axes(v: Array) -> frozenset[Any]:
    t = jax.typeof(v) if hasattr(jax, "typeof") else v
    kind = getattr(t, "manual_axis_type", None)
    return frozenset(kind.varying if kind is not None else getattr(t, "vma", ()))


def _vary(v: Array, axes: tuple[Any, ...]) -> Array:
    if not axes:
        return v
    if hasattr(jax.lax, "pcast"):
        return jax.lax.pcast(v, axes, to="varying")
    return jax.lax.pvary(v, axes)  # type: ignore[attr-defined]  # before 0.8


# What they compute, on any device.


def _compute_forward(*values: Array, spec: Spec, kernel: Any) -> list[Array]:
    x, a, b, key = with_key(values, 3)
    if key is not None:
        return [kernel.forward(x, a, b, key, spec)]
    return [sharding.forward(kernel.forward, spec, _groups(a))(x, a, b)]


def _compute_backward(*values: Array, spec: Spec, kernel: Any) -> list[Array]:
    dy, x, a, b, key = with_key(values, 4)
    if key is not None:
        return list(kernel.backward(dy, x, a, b, key, spec))
    return list(sharding.backward(kernel.backward, spec, _groups(a))(dy, x, a, b))


def _compute_change(*values: Array, spec: Spec, kernel: Any) -> list[Array]:
    *given, key = with_key(values, 6)
    if key is not None:
        return [formula.change(tuple(given[:3]), *given[3:], key, spec)]
    return [sharding.change(formula.change, spec, _groups(given[4]))(*given)]


def plain_forward(*values: Array, spec: Spec) -> Array:
    return formula.forward(*with_key(values, 3), spec)


def plain_change(*values: Array, spec: Spec) -> Array:
    *given, key = with_key(values, 6)
    return formula.change(tuple(given[:3]), *given[3:], key, spec)


def plain_backward(*values: Array, spec: Spec) -> tuple[Array, ...]:
    return formula.backward(*with_key(values, 4), spec)


def with_key(values: Sequence[Array], count: int) -> list[Array]:
    return [*values, None] if len(values) == count else list(values)


def _groups(a: Array) -> int:
    return a.shape[0] if a.ndim == 2 else 1


# What they are to JAX.


def _make(name: str, compute: Callable[..., Any], at: int, many: bool) -> Primitive:
    """``at``: where x is among the operands, which a and b follow."""
    p = Primitive(f"padenet_{name}")
    p.multiple_results = many

    def shapes(*avals: Any, spec: Spec, **mark: Any) -> Any:
        found = [v.update(weak_type=False) for v in avals[at : at + 3]]
        return found if many else found[0]

    p.def_abstract_eval(shapes)
    p.def_impl(lambda *v, spec, **mark: _eager(p, spec)(*v))

    def lower(ctx: Any, *v: Any, spec: Spec, **mark: Any) -> Any:
        return _lower(ctx, v, partial(compute, spec=spec, kernel=formula))

    def lower_on_cpu(ctx: Any, *v: Any, spec: Spec, **mark: Any) -> Any:
        exporting = getattr(ctx.module_context.lowering_parameters, "for_export", False)
        # With noise a part would have to know where in the whole it lies: the formula does.
        shared = getattr(ctx.module_context.axis_context, "num_devices", 1) > 1
        noisy = len(v) > at + 3
        if exporting or (shared and noisy) or native.refuses(*ctx.avals_in[at : at + 3]):
            return lower(ctx, *v, spec=spec)
        return _lower(ctx, v, partial(compute, spec=spec, kernel=native))

    mlir.register_lowering(p, lower)
    mlir.register_lowering(p, lower_on_cpu, platform="cpu")
    return p


def _lower(ctx: Any, values: Any, call: Callable[..., Any]) -> Any:
    """``call`` on arrays whose types say nothing of devices: partitioning decides about those."""
    given, made = ([_bare(v) for v in avals] for avals in (ctx.avals_in, ctx.avals_out))
    bare = ctx.replace(avals_in=given, avals_out=made)
    return mlir.lower_fun(call, multiple_results=True)(bare, *values)


def _bare(v: Any) -> Any:
    return type(v)(v.shape, v.dtype)


_jitted: dict[tuple[Primitive, Spec], Any] = {}


def _eager(p: Primitive, spec: Spec) -> Any:
    if (p, spec) not in _jitted:
        _jitted[p, spec] = jax.jit(lambda *v: p.bind(*v, spec=spec, **MARK))
    return _jitted[p, spec]


forward_p = _make("forward", _compute_forward, 0, False)
change_p = _make("change", _compute_change, 3, False)
backward_p = _make("backward", _compute_backward, 1, True)


# Derivatives.


def _forward_jvp(primals: Any, tangents: Any, spec: Spec, **mark: Any) -> tuple[Array, Array]:
    x, a, b, key = with_key(primals, 3)
    along = [_dense(t) for t in tangents[:3]]
    return forward(x, a, b, key, spec), change(along, x, a, b, key, spec)


def _change_jvp(primals: Any, tangents: Any, spec: Spec, **mark: Any) -> tuple[Array, Array]:
    dx, da, db, x, a, b, key = with_key(primals, 6)
    along = dx, da, db
    y = change(along, x, a, b, key, spec)
    parts = []
    if any(type(t) is not ad.Zero for t in tangents[:3]):
        parts.append(change([_dense(t) for t in tangents[:3]], x, a, b, key, spec))
    if any(type(t) is not ad.Zero for t in tangents[3:6]):
        call = lambda x, a, b: plain_change(*along, x, a, b, *_list(key), spec=spec)
        parts.append(jax.jvp(call, (x, a, b), tuple(_dense(t) for t in tangents[3:6]))[1])
    return y, sum(parts[1:], parts[0])


def _backward_jvp(primals: Any, tangents: Any, spec: Spec, **mark: Any) -> tuple[Any, Any]:
    dy, x, a, b, key = with_key(primals, 4)
    found = backward(dy, x, a, b, key, spec)
    parts: list[Any] = []
    if type(tangents[0]) is not ad.Zero:
        parts.append(backward(_dense(tangents[0]), x, a, b, key, spec))
    if any(type(t) is not ad.Zero for t in tangents[1:4]):
        call = lambda x, a, b: plain_backward(dy, x, a, b, *_list(key), spec=spec)
        parts.append(jax.jvp(call, (x, a, b), tuple(_dense(t) for t in tangents[1:4]))[1])
    return found, [sum(some[1:], some[0]) for some in zip(*parts, strict=True)]


def _dense(t: Any) -> Array:
    return ad.instantiate_zeros(t)


def _change_transpose(ct: Any, *values: Any, spec: Spec, **mark: Any) -> list[Any]:
    *along, x, a, b, key = with_key(values, 6)
    rest: list[Any] = [None] * (len(values) - 3)
    if type(ct) is ad.Zero:
        return [*(ad.Zero(v.aval) if ad.is_undefined_primal(v) else None for v in along), *rest]
    found = backward(ct, x, a, b, key, spec)
    return [
        *(d if ad.is_undefined_primal(v) else None for d, v in zip(found, along, strict=True)),
        *rest,
    ]


def _backward_transpose(cts: Any, *values: Any, spec: Spec, **mark: Any) -> list[Any]:
    dy, x, a, b, key = with_key(values, 4)
    if all(type(ct) is ad.Zero for ct in cts):
        return [ad.Zero(dy.aval), *[None] * (len(values) - 1)]
    along = [_dense(ct) for ct in cts]
    return [change(along, x, a, b, key, spec), *[None] * (len(values) - 1)]


ad.primitive_jvps[forward_p] = _forward_jvp
ad.primitive_jvps[change_p] = _change_jvp
ad.primitive_jvps[backward_p] = _backward_jvp
ad.primitive_transposes[change_p] = _change_transpose
ad.primitive_transposes[backward_p] = _backward_transpose
