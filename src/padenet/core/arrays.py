"""Numbers from wherever they come as NumPy arrays, and the formula on those."""

from typing import Any

import numpy as np

from padenet.core.forms import Spec
from padenet.core.formula import Arrays, Unit

Array = np.ndarray
NUMPY = Arrays(np, np.moveaxis, lambda v: np.asarray(v, float), lambda v: v, lambda v: not v.any())


def floats(values: Any) -> Array:
    """A copy in float64 of an array, a number, a sequence, or a tensor on any device."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().double().numpy()
    elif isinstance(values, list | tuple):
        values = [floats(v) if hasattr(v, "detach") else v for v in values]
    return np.array(values, dtype=float, order="C")


def evaluate(x: Any, a: Any, b: Any, spec: Spec) -> Array:
    """F(x) in float64."""
    with np.errstate(all="ignore"):
        return np.asarray(Unit(NUMPY, floats(x), floats(a), floats(b), spec).F())
