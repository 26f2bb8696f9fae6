"""The C++ kernel as custom calls of XLA on the CPU (``native/xla.cpp``): no copy, no callback."""

import struct
import warnings
from functools import cache
from typing import Any

import jax
import numpy as np

from padenet.core import native
from padenet.core.forms import Spec

Array = Any
TARGETS = ("padenet_xla_forward", "padenet_xla_backward")


@cache
def missing() -> str | None:
    """Why there is no custom call, or None if there is one."""
    if reason := native.missing():
        return reason
    try:
        for name in TARGETS:
            call = jax.ffi.pycapsule(native.address(name))
            jax.ffi.register_ffi_target(name, call, platform="cpu")
    except Exception as error:  # whatever an older or newer jaxlib does not take
        return f"this jaxlib does not take the custom call ({error})"
    return None


def refuses(x: Array, a: Array, b: Array) -> str | None:
    """Why the kernel cannot take these arrays, or None."""
    most = native.MAX_DEGREE
    if a.shape[-1] > most + 1 or b.shape[-1] > most:
        return f"a and b have {a.shape[-1]} and {b.shape[-1]} values, degrees go up to {most}"
    if reason := missing():
        warn_once(reason)
    return missing()


def forward(x: Array, a: Array, b: Array, key: Array | None, spec: Spec) -> Array:
    return _call(TARGETS[0], _like(x), (x, a, b), key, spec)


def backward(
    dy: Array, x: Array, a: Array, b: Array, key: Array | None, spec: Spec
) -> tuple[Array, Array, Array]:
    found = _call(TARGETS[1], tuple(map(_like, (x, a, b))), (dy, x, a, b), key, spec)
    return found[0], found[1], found[2]


def _call(name: str, out: Any, given: tuple[Array, ...], key: Array | None, spec: Spec) -> Any:
    form = spec.flags.code
    bits = struct.unpack("=2q", struct.pack("=2d", spec.q, spec.alpha))
    given = given if key is None else (*given, key)
    call = jax.ffi.ffi_call(name, out, vmap_method=None)
    return call(*given, spec=np.array([form, spec.channel_dim, *bits], np.int64))


def _like(v: Array) -> Any:
    t = jax.typeof(v) if hasattr(jax, "typeof") else v
    return jax.ShapeDtypeStruct(v.shape, v.dtype, **_varying(t))


def _varying(t: Any) -> dict[str, Any]:
    """What a result must say inside ``shard_map``, in the words of this version of JAX."""
    if getattr(t, "manual_axis_type", None) is not None:
        return {"manual_axis_type": t.manual_axis_type}
    return {"vma": t.vma} if getattr(t, "vma", None) else {}


@cache
def warn_once(reason: str) -> None:
    warnings.warn(
        f"padenet runs on plain JAX, much slower than its C++ kernel: {reason}",
        RuntimeWarning,
        stacklevel=2,
    )
