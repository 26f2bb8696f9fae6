"""The functions that the stored starts approximate, on arrays of float64."""

import math
from collections.abc import Callable
from functools import partial

import numpy as np

Array = np.ndarray

ALPHA, SCALE = 1.6732632423543772, 1.0507009873554805  # of SELU


def sigmoid(x: Array) -> Array:
    return np.exp(-np.logaddexp(0.0, -x))


def gelu(x: Array) -> Array:
    erfc = np.frompyfunc(math.erfc, 1, 1)(-x / math.sqrt(2))
    return 0.5 * x * np.asarray(erfc, dtype=float)


def elu(x: Array) -> Array:
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0.0)))


def leaky_relu(x: Array, slope: float) -> Array:
    return np.where(x > 0, x, slope * x)


TARGETS: dict[str, Callable[[Array], Array]] = {
    "identity": lambda x: x,
    "relu": lambda x: np.maximum(x, 0.0),
    "relu6": lambda x: np.clip(x, 0.0, 6.0),
    "lrelu": partial(leaky_relu, slope=0.01),
    **{
        f"lrelu_{slope}": partial(leaky_relu, slope=float(slope))
        for slope in ("0.20", "0.25", "0.30", "-0.5")
    },
    "elu": elu,
    "selu": lambda x: SCALE * np.where(x > 0, x, ALPHA * np.expm1(np.minimum(x, 0.0))),
    "sigmoid": sigmoid,
    "tanh": np.tanh,
    "swish": lambda x: x * sigmoid(x),
    "gelu": gelu,
    "mish": lambda x: x * np.tanh(np.logaddexp(0.0, x)),
    "softplus": lambda x: np.logaddexp(0.0, x),
    "hardswish": lambda x: x * np.clip(x + 3.0, 0.0, 6.0) / 6.0,
    "sin": np.sin,
}
"""By the name in ``Start.target``."""
