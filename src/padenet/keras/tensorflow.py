"""The formula of ``padenet.core.formula`` on TensorFlow, with its own backward.

float64 computes in float64, every other dtype in float32. What is kept for backward is x and the
coefficients. Another branch is run only where there are numbers far from 0. Up to degree 6 it is
the same in float64, which holds every product that does not overflow in the end; else it is that of
the formula for any size, of which XLA compiles some thousand operations.
"""

from collections.abc import Callable
from typing import Any

from padenet.core import Spec, require
from padenet.core.forms import check_groups, check_shapes, check_spec
from padenet.core.formula import Arrays, Unit
from padenet.core.noise import draw
from padenet.keras.arrays import OPERATIONS, Array, move

tf = require("tensorflow", "keras")

Tensor = Any
DTYPES = ("float32", "bfloat16", "float16", "float64")


@tf.autograph.experimental.do_not_convert
def apply(x: Tensor, a: Tensor, b: Tensor, key: Tensor | None, spec: Spec) -> Tensor:
    check_spec(spec)
    x, a, b = (tf.convert_to_tensor(v) for v in (x, a, b))
    _check(x, a, b, spec)
    spec = spec._replace(q=float(spec.q), alpha=float(spec.alpha))
    keys = () if key is None else (tf.cast(key, tf.int64),)

    @tf.custom_gradient
    def unit(x: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Callable[[Tensor], Any]]:
        def gradients(dy: Tensor) -> Any:
            return _by_distance(_backward, spec, x, a, b, dy, *keys)

        return _by_distance(_forward, spec, x, a, b, *keys), gradients

    return unit(x, a, b)


def _check(x: Tensor, a: Tensor, b: Tensor, spec: Spec) -> None:
    if x.dtype.name not in DTYPES:
        raise TypeError(
            f"x has dtype {x.dtype.name}, padenet takes {', '.join(DTYPES)}. "
            "Try keras.ops.cast(x, 'float32')."
        )
    if a.dtype != b.dtype or a.dtype.name not in DTYPES:
        raise TypeError(
            f"a and b must share one float dtype, got {a.dtype.name} and {b.dtype.name}. "
            "Convert them, e.g. keras.ops.cast(a, 'float32')."
        )
    check_shapes(tuple(a.shape), tuple(b.shape), spec)
    if a.shape.rank == 2:
        check_groups(tuple(x.shape), int(a.shape[0]), spec.channel_dim)


def _forward(spec: Spec, arrays: Arrays, x: Tensor, a: Tensor, b: Tensor, *keys: Tensor) -> Tensor:
    return tf.cast(_unit(spec, arrays, x, a, b, *keys).F().value, x.dtype)


def _backward(
    spec: Spec, arrays: Arrays, x: Tensor, a: Tensor, b: Tensor, dy: Tensor, *keys: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    unit = _unit(spec, arrays, x, a, b, *keys)
    found = unit.gradients(Array(tf.cast(dy, unit.x.dtype)))
    dx, da, db = (None if v is None else v.value for v in found)
    db = tf.zeros_like(b) if db is None else tf.cast(db, b.dtype)
    return tf.cast(dx, x.dtype), tf.cast(da, a.dtype), db


def compute_dtype(x: Tensor) -> Any:
    return tf.float64 if x.dtype == tf.float64 else tf.float32


def _unit(spec: Spec, arrays: Arrays, x: Tensor, a: Tensor, b: Tensor, *keys: Tensor) -> Unit:
    dtype = tf.float64 if arrays is IN_DOUBLE else compute_dtype(x)
    noise = _noise(keys[0], x, a.shape[-1] + b.shape[-1], dtype) if keys else None
    x, a, b = (tf.cast(v, dtype) for v in (x, a, b))
    if arrays is IN_DOUBLE:
        most = 2.0 ** (800 // max(a.shape[-1] - 1, b.shape[-1], 1))
        x = tf.where(tf.math.is_inf(x), tf.sign(x) * tf.constant(most, dtype), x)
    return Unit(arrays, Array(x), Array(a), Array(b), spec, noise)


def _noise(key: Tensor, x: Tensor, count: int, dtype: Any) -> list[Array]:
    """The noises of every element, inside (-1, 1)."""
    high, low = (Array(v) & 0xFFFFFFFF for v in tf.unstack(key))
    index = tf.reshape(tf.range(tf.size(x, tf.int64), dtype=tf.int64), tf.shape(x))
    index.set_shape(x.shape)
    drawn = draw((high << 32) | low, Array(index), count)
    return [Array(tf.cast(v.value, dtype)) / 4096.0 - 1.0 for v in drawn]


def _by_distance(
    compute: Callable[..., Any], spec: Spec, x: Tensor, a: Tensor, b: Tensor, *rest: Tensor
) -> Any:
    seen: list[Tensor] = []
    near = compute(spec, _watching(seen), x, a, b, *rest)
    any_far = tf.reduce_any(seen[0])
    short = max(a.shape[-1] - 1, b.shape[-1]) <= IN_DOUBLE_DEGREE and x.dtype != tf.float64
    arrays = IN_DOUBLE if short else ANYWHERE
    if tf.executing_eagerly():
        return compute(spec, arrays, x, a, b, *rest) if any_far else near
    return tf.cond(any_far, lambda: compute(spec, arrays, x, a, b, *rest), lambda: near)


def _watching(seen: list[Tensor]) -> Arrays:
    """Computes as if no number were far, and lays down which ones are."""

    def none_of(far: Array) -> bool:
        seen.append(far.value)
        return True

    return ANYWHERE._replace(none_of=none_of)


def _sum(rows: Array) -> Array:
    """In float64, since a size that only the run tells cannot be taken in parts."""
    return Array(tf.cast(tf.reduce_sum(tf.cast(rows.value, tf.float64), 1), rows.dtype))


ANYWHERE = Arrays(
    OPERATIONS,
    move,
    lambda v: v,
    lambda v: Array(tf.stop_gradient(v.value)),
    lambda far: False,
    _sum,
)
IN_DOUBLE = ANYWHERE._replace(none_of=lambda far: True)
IN_DOUBLE_DEGREE = 6  # 128 bits a power, and for a coefficient, stay below 1024
