"""Tensors of TensorFlow in the manner of NumPy, for ``padenet.core.formula`` and ``core.noise``.

TensorFlow can give its own tensors that manner, but only for the whole program.
"""

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from padenet.core import require

tf = require("tensorflow", "keras")

Tensor = Any


class Size:
    """Of a dim, where only the run will tell."""

    def __init__(self, value: Tensor):
        self.value = value

    def __mul__(self, other: Any) -> "Size":
        return Size(self.value * _plain(other))

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> "Size":
        return Size(self.value // _plain(other))


def _plain(v: Any) -> Any:
    return v.value if isinstance(v, Array | Size) else v


def _operator(function: Callable[[Any, Any], Tensor]) -> Any:
    return lambda v, w: Array(function(v.value, _plain(w)))


def _swapped(function: Callable[[Any, Any], Tensor]) -> Any:
    return lambda v, w: Array(function(_plain(w), v.value))


def _bitwise(name: str) -> Any:
    function = getattr(tf.bitwise, name)
    return _operator(lambda v, w: function(v, tf.cast(w, v.dtype)))


class Array:
    """A tensor with NumPy's operators and methods, as far as the formula asks for them."""

    def __init__(self, value: Tensor):
        self.value = value

    @property
    def dtype(self) -> Any:
        return self.value.dtype

    @property
    def ndim(self) -> int:
        return int(self.value.shape.rank)

    @property
    def shape(self) -> tuple[Any, ...]:
        known = self.value.shape.as_list()
        if None not in known:
            return tuple(known)
        sizes = tf.shape(self.value)
        return tuple(Size(sizes[i]) if n is None else n for i, n in enumerate(known))

    def reshape(self, *shape: Any) -> "Array":
        if len(shape) == 1 and isinstance(shape[0], tuple):
            (shape,) = shape
        found = tf.reshape(self.value, [_plain(n) for n in shape])
        found.set_shape([None if isinstance(n, Size) or n == -1 else n for n in shape])
        return Array(found)

    def sum(self, axis: int) -> "Array":
        return Array(tf.reduce_sum(self.value, axis))

    def any(self) -> "Array":
        return Array(tf.reduce_any(self.value))

    def __iter__(self) -> Iterator["Array"]:
        return map(Array, tf.unstack(self.value))

    def __getitem__(self, key: Any) -> "Array":
        return Array(self.value[key])

    def __pow__(self, k: int) -> "Array":
        """By multiplications: a power with a float exponent is not exact."""
        found = tf.ones_like(self.value)
        for _ in range(k):
            found = found * self.value
        return Array(found)

    def __neg__(self) -> "Array":
        return Array(-self.value)

    __add__, __radd__ = _operator(operator.add), _swapped(operator.add)
    __sub__, __rsub__ = _operator(operator.sub), _swapped(operator.sub)
    __mul__, __rmul__ = _operator(operator.mul), _swapped(operator.mul)
    __truediv__, __rtruediv__ = _operator(operator.truediv), _swapped(operator.truediv)
    __lt__, __gt__, __eq__ = map(_operator, (operator.lt, operator.gt, tf.equal))
    __and__, __or__, __xor__ = map(_bitwise, ("bitwise_and", "bitwise_or", "bitwise_xor"))
    __lshift__, __rshift__ = map(_bitwise, ("left_shift", "right_shift"))


def _function(function: Callable[[Tensor], Tensor]) -> Any:
    return staticmethod(lambda v: Array(function(v.value)))


class _Operations:
    """NumPy's functions on ``Array``."""

    abs, sign, floor = map(_function, (tf.abs, tf.sign, tf.floor))
    ceil, round = map(_function, (tf.math.ceil, tf.round))
    isfinite, isinf = map(_function, (tf.math.is_finite, tf.math.is_inf))
    ones_like, zeros_like = map(_function, (tf.ones_like, tf.zeros_like))

    @staticmethod
    def finfo(dtype: Any) -> Any:
        return np.finfo(dtype.as_numpy_dtype)

    @staticmethod
    def where(condition: Array, x: Any, y: Any) -> Array:
        x, y = _plain(x), _plain(y)
        dtype = y.dtype if isinstance(x, float) else x.dtype
        x, y = (tf.constant(v, dtype) if isinstance(v, float) else v for v in (x, y))
        return Array(tf.where(condition.value, x, y))

    @staticmethod
    def clip(v: Array, least: float, most: float | None) -> Array:
        found = tf.maximum(v.value, tf.constant(least, v.dtype))
        return Array(found if most is None else tf.minimum(found, tf.constant(most, v.dtype)))

    @staticmethod
    def exp2(e: Array) -> Array:
        """Of whole numbers: exact, and 0 where it would be subnormal, which may be flushed."""
        short = e.dtype == tf.float32
        kind, bits, bias = (tf.int32, 23, 127) if short else (tf.int64, 52, 1023)
        whole = tf.cast(tf.clip_by_value(e.value, -bias, bias), kind) + bias
        return Array(tf.bitcast(tf.bitwise.left_shift(whole, tf.constant(bits, kind)), e.dtype))

    @staticmethod
    def log2(v: Array) -> Array:
        return Array(tf.math.log(v.value) / tf.constant(np.log(2.0), v.dtype))

    @staticmethod
    def stack(values: Sequence[Array], axis: int) -> Array:
        return Array(tf.stack([v.value for v in values], axis))

    @staticmethod
    def maximum(v: Array, w: Array) -> Array:
        return Array(tf.maximum(v.value, w.value))

    @staticmethod
    def full_like(v: Array, value: float) -> Array:
        return Array(tf.fill(tf.shape(v.value), tf.constant(value, v.dtype)))

    @staticmethod
    def amax(v: Array, axis: int) -> Array:
        return Array(tf.reduce_max(v.value, axis))


OPERATIONS = _Operations()


def move(v: Array, source: int, place: int) -> Array:
    axes = list(range(v.ndim))
    axes.insert(place, axes.pop(source))
    return v if axes == list(range(v.ndim)) else Array(tf.transpose(v.value, axes))
