"""The formula of ``padenet.core.formula`` on JAX arrays: values, gradients and changes.

float64 computes in float64, every other dtype in float32. Numbers far from 0 take another branch,
in which nothing overflows; it is computed only where an array has such numbers.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from padenet.core.forms import Spec
from padenet.core.formula import Arrays, Unit, sum_of_rows
from padenet.jax.noise import uniform

Array = Any


def forward(x: Array, a: Array, b: Array, key: Array | None, spec: Spec) -> Array:
    return _by_distance(lambda unit: unit.F(), x, a, b, key, spec).astype(x.dtype)


def backward(
    dy: Array, x: Array, a: Array, b: Array, key: Array | None, spec: Spec
) -> tuple[Array, Array, Array]:
    """Gradients of ``sum(dy * F(x))`` with respect to ``x``, ``a`` and ``b``."""
    dy = dy.astype(compute_dtype(x))

    def gradients(unit: Unit) -> tuple[Array, Array, Array]:
        dx, da, db = unit.gradients(dy)
        db = jnp.zeros(b.shape, b.dtype) if db is None else db.astype(b.dtype)
        return dx.astype(x.dtype), da.astype(a.dtype), db

    return _by_distance(gradients, x, a, b, key, spec)


def change(
    along: tuple[Array, Array, Array], x: Array, a: Array, b: Array, key: Array | None, spec: Spec
) -> Array:
    """The change of ``F(x)`` along ``(dx, da, db)``."""
    dx, da, db = (d.astype(compute_dtype(x)) for d in along)
    return _by_distance(lambda unit: unit.change(dx, da, db), x, a, b, key, spec).astype(x.dtype)


def compute_dtype(x: Array) -> Any:
    return jnp.float64 if x.dtype == jnp.float64 else jnp.float32


def _by_distance(what: Any, x: Array, a: Array, b: Array, key: Array | None, spec: Spec) -> Any:
    dtype = compute_dtype(x)
    noise = None
    if key is not None:
        noise = uniform(key, x.shape, a.shape[-1] + b.shape[-1], dtype)
    make = partial(_make_unit, x.astype(dtype), a.astype(dtype), b.astype(dtype), spec, noise)
    near = make(NEAR)
    return lax.cond(near.far.any(), lambda: what(make(ANYWHERE)), lambda: what(near))


def _make_unit(
    x: Array, a: Array, b: Array, spec: Spec, noise: list[Array] | None, arrays: Arrays
) -> Unit:
    return Unit(arrays, x, a, b, spec, noise)


class _Operations:
    """``jax.numpy``, except for what is rounded there and must not be."""

    def __getattr__(self, name: str) -> Any:
        return getattr(jnp, name)

    @staticmethod
    def exp2(e: Array) -> Array:
        """Of whole numbers: exact, and 0 where it would be subnormal, which XLA may flush."""
        e = jnp.asarray(e)
        short = e.dtype != jnp.float64
        kind, bits, bias = (jnp.int32, 23, 127) if short else (jnp.int64, 52, 1023)
        whole = jnp.clip(e, -bias, bias).astype(kind) + bias
        return lax.bitcast_convert_type(whole << bits, e.dtype)


def _sum(rows: Array) -> Array:
    if all(isinstance(n, int) for n in rows.shape):
        return sum_of_rows(rows)
    return rows.sum(1)  # of a size that only the export's user knows


_OPERATIONS = _Operations()
ANYWHERE = Arrays(
    _OPERATIONS, jnp.moveaxis, lambda v: v, jax.lax.stop_gradient, lambda far: False, _sum
)
NEAR = ANYWHERE._replace(none_of=lambda far: True)
