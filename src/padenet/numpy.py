"""The Padé activation on NumPy arrays: values and gradients, without a framework.

By the C++ library where it was built, in all cores; else the formula in NumPy's operations, which
takes some twenty times as long and several copies of ``x``.
"""

import math
import os
from typing import Any

import numpy as np

from padenet.core import native
from padenet.core.arrays import NUMPY
from padenet.core.forms import FORMS, Spec, check_groups, check_shapes, check_spec
from padenet.core.formula import Unit

__all__ = ["rational", "rational_vjp"]

Array = np.ndarray


def rational(
    x: Any, a: Any, b: Any, *, form: str = "safe", q: float = 1.0, channel_dim: int = 1
) -> Array:
    """``P(x) / Q(x)``, elementwise, right for every finite ``x``: as ``padenet.rational``.

    Args:
        x: Numbers of any shape in float16, bfloat16 (of ``ml_dtypes``), float32 or float64. What
            is no array, such as a list, is taken as float64.
        a: Numerator ``(m + 1,)``, constant term first, or ``(groups, m + 1)``.
        b: Denominator ``(n,)`` from b_1 on, or ``(groups, n)``; ``n + 1`` from b_0 for "offset".
        form: "safe", "abs_terms", "free" or "offset".
        q: The constant of "safe" and "offset", in [1e-6, 1].
        channel_dim: The dim of ``x`` that the groups divide evenly. Unused without groups.

    Returns:
        An array with the shape and dtype of ``x``. 16-bit types are computed in float32 and
        rounded once.
    """
    x, a, b, spec = _check(x, a, b, Spec(form, q, channel_dim))
    if _refuses(a, b):
        with np.errstate(all="ignore"):
            return np.asarray(_unit(x, a, b, spec).F(), dtype=x.dtype)
    y = np.empty_like(x)
    _run("padenet_forward", x, y, a, b, spec)
    return y


def rational_vjp(
    dy: Any,
    x: Any,
    a: Any,
    b: Any,
    *,
    form: str = "safe",
    q: float = 1.0,
    channel_dim: int = 1,
) -> tuple[Array, Array, Array]:
    """The gradients of ``(dy * rational(x, a, b)).sum()`` with respect to x, a and b."""
    x, a, b, spec = _check(x, a, b, Spec(form, q, channel_dim))
    dy = np.ascontiguousarray(_native("dy", dy), dtype=x.dtype).reshape(np.shape(dy))
    if dy.shape != x.shape:
        raise ValueError(
            f"dy has shape {dy.shape} and x {x.shape}. Give dy for every element: "
            "numpy.broadcast_to(dy, x.shape)."
        )
    if _refuses(a, b):
        wide = dy.astype(_wide(x))
        with np.errstate(all="ignore"):
            dx, da, db = _unit(x, a, b, spec).gradients(wide)
            db = np.zeros_like(b) if db is None else np.asarray(db, dtype=b.dtype)
            return np.asarray(dx, dtype=x.dtype), np.asarray(da, dtype=a.dtype), db
    dx, da, db = (np.empty_like(v) for v in (x, a, b))
    _run("padenet_backward", x, dx, a, b, spec, (dy, da, db))
    return dx, da, db


def _check(x: Any, a: Any, b: Any, spec: Spec) -> tuple[Array, Array, Array, Spec]:
    check_spec(spec)
    x = _native("x", x)
    if x.dtype.kind in "iub":
        x = x.astype(float)
    a, b = _native("a", a), _native("b", b)
    a, b = (c if c.dtype.name in native.DTYPES else c.astype(float) for c in (a, b))
    if b.dtype != a.dtype:
        b = b.astype(a.dtype)
    if x.dtype.name not in native.DTYPES:
        raise TypeError(
            f"x has dtype {x.dtype}, padenet takes {', '.join(native.DTYPES)}. "
            "Try x.astype('float32')."
        )
    check_shapes(a.shape, b.shape, spec)
    if a.ndim == 2:
        check_groups(x.shape, a.shape[0], spec.channel_dim)
    x, a, b = (np.ascontiguousarray(v).reshape(v.shape) for v in (x, a, b))
    return x, a, b, spec._replace(q=float(spec.q))


def _native(name: str, values: Any) -> Array:
    """An array in the byte order of this machine."""
    values = np.asarray(values)
    if values.dtype.kind == "c":
        known = ", ".join(native.DTYPES)
        raise TypeError(f"{name} has dtype {values.dtype}, padenet takes {known}. Try {name}.real.")
    return values if values.dtype.isnative else values.astype(values.dtype.newbyteorder("="))


def _refuses(a: Array, b: Array) -> bool:
    return max(a.shape[-1] - 1, b.shape[-1]) > native.MAX_DEGREE or native.missing() is not None


def _wide(x: Array) -> Any:
    return np.float64 if x.dtype == np.float64 else np.float32


def _unit(x: Array, a: Array, b: Array, spec: Spec) -> Unit:
    x, a, b = (v.astype(_wide(x)) for v in (x, a, b))
    return Unit(NUMPY, x, a, b, spec)


def _run(
    entry: str,
    x: Array,
    out: Array,
    a: Array,
    b: Array,
    spec: Spec,
    gradients: tuple[Array, ...] = (),
) -> None:
    groups = a.shape[0] if a.ndim == 2 else 1
    sizes = (1, 1, x.size, 1)
    if groups > 1:
        c = spec.channel_dim % x.ndim
        sizes = (math.prod(x.shape[:c]), x.shape[c], math.prod(x.shape[c + 1 :]), groups)
    dy, da, db = (v.ctypes.data for v in gradients) if gradients else (0, 0, 0)
    form = FORMS[spec.form]
    dtypes = (native.DTYPES.index(x.dtype.name), native.DTYPES.index(a.dtype.name))
    degrees = form.degrees(a.shape[-1], b.shape[-1])
    at = (x.ctypes.data, dy, out.ctypes.data, a.ctypes.data, b.ctypes.data, da, db)
    native.run(entry, at, sizes, dtypes, degrees, spec, _threads())


def _threads() -> int:
    if given := os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip():
        return max(int(given), 1) if given.isdigit() else 1
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
