"""``vmap`` of the three primitives, over inputs, coefficients or both.

Coefficients that differ from example to example are groups: those of all examples side by side, and
so are the gradients of coefficients, of which each example has its own.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import batching

from padenet.core.forms import Spec
from padenet.jax import primitives
from padenet.jax.primitives import MARK, align

Array = Any


class Kinds(NamedTuple):
    """Of operands and results: "x" for what is like x, "c" for what is like a and b."""

    given: str
    made: str
    plain: Callable[..., Any]  # in JAX's own operations


KINDS = {
    primitives.forward_p: Kinds("xcc", "x", primitives.plain_forward),
    primitives.change_p: Kinds("xccxcc", "x", primitives.plain_change),
    primitives.backward_p: Kinds("xxcc", "xcc", primitives.plain_backward),
}


def _batch(
    p: Primitive, values: Sequence[Array], dims: Sequence[Any], spec: Spec, **mark: Any
) -> Any:
    kinds = KINDS[p]
    if len(values) > len(kinds.given):  # with noise: every example counts its own elements
        return _by_formula(p, values, dims, spec)
    size = next(v.shape[d] for v, d in zip(values, dims, strict=True) if d is not None)
    first = kinds.given.index("c")
    grouped = values[first].ndim - (dims[first] is not None) == 2
    shared = all(d is None for d, kind in zip(dims, kinds.given, strict=True) if kind == "c")
    if shared and "c" not in kinds.made:
        found = [
            v if kind == "c" else _to_front(v, d, size)
            for v, d, kind in zip(values, dims, kinds.given, strict=True)
        ]
        spec = spec._replace(channel_dim=spec.channel_dim + 1) if grouped else spec
        return p.bind(*align(*found), spec=spec, **MARK), 0
    channel = spec.channel_dim + 1
    front = [_to_front(v, d, size) for v, d in zip(values, dims, strict=True)]
    like = front[kinds.given.index("x")]
    if grouped:
        rest = [n for d, n in enumerate(like.shape) if d not in (0, channel)]
        shape = (size, like.shape[channel], *rest)
        front = [
            _merge(v if kind == "c" else jnp.moveaxis(v, channel, 1))
            for v, kind in zip(front, kinds.given, strict=True)
        ]
    found = p.bind(*align(*front), spec=spec._replace(channel_dim=0), **MARK)
    made = found if p.multiple_results else [found]
    if grouped:
        made = [
            v.reshape(size, v.shape[0] // size, v.shape[1])
            if kind == "c"
            else jnp.moveaxis(v.reshape(shape), 1, channel)
            for v, kind in zip(made, kinds.made, strict=True)
        ]
    return (made, [0] * len(made)) if p.multiple_results else (made[0], 0)


def _by_formula(p: Primitive, values: Sequence[Array], dims: Sequence[Any], spec: Spec) -> Any:
    found = jax.vmap(partial(KINDS[p].plain, spec=spec), in_axes=tuple(dims))(*values)
    return found, [0] * len(found) if p.multiple_results else 0


def _to_front(v: Array, d: int | None, size: int) -> Array:
    return jnp.broadcast_to(v, (size, *v.shape)) if d is None else jnp.moveaxis(v, d, 0)


def _merge(v: Array) -> Array:
    """The first two dims in one."""
    return v.reshape(v.shape[0] * v.shape[1], *v.shape[2:])


for _p in KINDS:
    batching.primitive_batchers[_p] = partial(_batch, _p)
