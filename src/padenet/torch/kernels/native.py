"""The C++ kernel (``native/``) on CPU tensors: finds the library, lays out the problem, calls it.

Contract
    x       dense in some order of its dims, read in memory order; anything else is copied first.
    dy      laid out as x, or one number expanded (all strides 0); anything else is copied.
    y, dx   laid out as x. Nothing else of the size of x is allocated.
    a, b    any float dtype, computed in float32 (float64 where x is float64).
    order   sums in fixed chunks added in fixed order: the same bits for any number of threads.
"""

import ctypes
import math
import os
import struct
from collections.abc import Callable
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from padenet.core.forms import FORMS, Spec
from padenet.torch.kernels.layout import is_one_number, memory_order, same_layout

MAX_DEGREE = 32
MAX_RANK = 8
_ABI = 3
DTYPES = {torch.float32: 0, torch.float64: 1, torch.bfloat16: 2, torch.float16: 3}
FORM_NUMBERS = {form: i for i, form in enumerate(FORMS)}
_PROBLEM = struct.Struct("=7Q13qQ2d")
_DIM = struct.Struct("=2q")
_is_compiling = torch.compiler.is_compiling
_REINSTALL = "Reinstall padenet: pip install --force-reinstall --no-deps padenet (or its folder)."
_ISAS = ("baseline", "avx2", "avx512")
_NAMES = ("libpadenet_native.so", "libpadenet_native.dylib", "padenet_native.dll")


@cache
def _find() -> tuple[ctypes.CDLL | None, str]:
    """The library, or None and why."""
    import padenet

    isa = os.environ.get("PADENET_ISA")
    if isa and isa not in _ISAS:
        raise ValueError(
            f"unknown instruction set PADENET_ISA={isa!r}. Known: {', '.join(_ISAS)}. "
            "Unset it for the widest that this CPU has."
        )

    for folder in padenet.__path__:
        for name in _NAMES:
            path = Path(folder) / name
            if not path.is_file():
                continue
            try:
                library = ctypes.CDLL(str(path))
                abi = library.padenet_abi_version()
            except (OSError, AttributeError) as e:
                return None, f"{path} does not load ({e}). {_REINSTALL}"
            if abi != _ABI:
                return None, f"{path} has ABI {abi}, this padenet needs {_ABI}. {_REINSTALL}"
            for name in ("forward", "backward", "remember", "hold", "shorten"):
                entry = library[f"padenet_{name}"]
                entry.argtypes, entry.restype = (ctypes.c_char_p,), ctypes.c_int
                setattr(library, f"padenet_{name}", entry)
            library.padenet_isa.restype = ctypes.c_char_p
            return library, ""
    return None, (
        "the library is not in the installation, because pip found no C++ compiler that works "
        "when it installed padenet. Install one (e.g. g++), then, without torch again, pip "
        "install --force-reinstall --no-deps --no-cache-dir padenet (or its folder)."
    )


def missing() -> str | None:
    """Why there is no native kernel, or None if there is one."""
    return _find()[1] or None


def status() -> str:
    library, reason = _find()
    if library is None:
        return f"missing: {reason}"
    threads = "OpenMP" if library.padenet_has_openmp() else "one thread"
    return f"C++, {library.padenet_isa().decode()}, {threads}"


def refuses(x: Tensor, a: Tensor, b: Tensor) -> str | None:
    """Why the kernel cannot take these tensors, or None."""
    if not x.is_cpu:
        return f"x is on {x.device}, the kernel needs 'cpu'"
    if a.shape[-1] > MAX_DEGREE + 1 or b.shape[-1] > MAX_DEGREE:
        return f"a and b have {a.shape[-1]} and {b.shape[-1]} values, degrees go up to {MAX_DEGREE}"
    if x.dim() > MAX_RANK:
        return f"x has {x.dim()} dims, the kernel takes {MAX_RANK}"
    return missing()


def forward(x: Tensor, a: Tensor, b: Tensor, key: Tensor | None, spec: Spec) -> Tensor:
    if _is_compiling():
        return torch.ops.padenet.native_forward(x, a, b, key, *spec)
    order = memory_order(x)
    if order is None:
        return forward(x.clone(), a, b, key, spec)
    y = torch.empty_like(x)
    a, b = a.contiguous(), b.contiguous()
    _call("padenet_forward", x, y, a, b, order, key, spec)
    return y


def backward(
    dy: Tensor, x: Tensor, a: Tensor, b: Tensor, key: Tensor | None, spec: Spec
) -> tuple[Tensor, Tensor, Tensor]:
    if _is_compiling():
        return torch.ops.padenet.native_backward(dy, x, a, b, key, *spec)
    order = memory_order(x)
    if order is None:
        return backward(dy, x.clone(), a, b, key, spec)
    dx = torch.empty_like(x)
    one_number = False
    if not same_layout(dy, x):
        one_number = is_one_number(dy)
        if not one_number:
            dy = torch.empty_like(x).copy_(dy)
    a, b = a.contiguous(), b.contiguous()
    da, db = torch.empty_like(a), torch.empty_like(b)
    gradients = dy.data_ptr(), da.data_ptr(), db.data_ptr()
    _call("padenet_backward", x, dx, a, b, order, key, spec, gradients, one_number)
    return dx, da, db


def _call(
    entry: str,
    x: Tensor,
    out: Tensor,
    a: Tensor,
    b: Tensor,
    order: tuple[int, ...],
    key: Tensor | None,
    spec: Spec,
    gradients: tuple[int, int, int] = (0, 0, 0),  # addresses of dy, da, db
    one_number: bool = False,
) -> None:
    """Pack the arguments as ``struct Problem`` of ``native/problem.h`` and run."""
    form, q, channel_dim, alpha = spec
    outer, channels, inner, groups = 1, 1, x.numel(), 1
    if a.dim() == 2 and a.size(0) > 1:
        c = channel_dim % x.dim()
        groups, channels = a.size(0), x.size(c)
        inner = x.stride(c) if order else math.prod(x.shape[c + 1 :])
        outer = x.numel() // max(channels * inner, 1)
    dy, da, db = gradients
    dims = order if key is not None else ()
    problem = _PROBLEM.pack(
        x.data_ptr(),
        dy,
        out.data_ptr(),
        a.data_ptr(),
        b.data_ptr(),
        da,
        db,
        outer,
        channels,
        inner,
        groups,
        DTYPES[x.dtype],
        DTYPES[a.dtype],
        FORM_NUMBERS[form],
        a.numel() // groups - 1,
        b.numel() // groups - (form == "offset"),
        thread_count(),
        one_number,
        key is not None,
        len(dims),
        0 if key is None else int(key),
        q,
        alpha,
    )
    if dims:
        by_shape = torch.empty(x.shape, device="meta").stride()
        problem += b"".join([_DIM.pack(x.size(d), by_shape[d]) for d in dims])
    if code := call(entry, problem):
        raise MemoryError(f"{entry} could not allocate its partial sums (code {code})")


def call(entry: str, arguments: bytes) -> int:
    """An entry point of the library with its packed struct."""
    return _entry(entry)(arguments)


def thread_count() -> int:
    """How many threads the library may use."""
    return 1 if _forked else torch.get_num_threads()


_forked = False


def _after_fork() -> None:
    """The threads of OpenMP do not survive a fork: a child that asks for them waits for ever."""
    global _forked
    _forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@cache
def _entry(name: str) -> Callable[[bytes], int]:
    return getattr(_find()[0], name)


@torch.library.custom_op("padenet::native_forward", mutates_args=())
def _forward_op(
    x: Tensor, a: Tensor, b: Tensor, key: Tensor | None,
    form: str, q: float, channel_dim: int, alpha: float,
) -> Tensor:  # fmt: skip
    return forward(x, a, b, key, Spec(form, q, channel_dim, alpha))


@_forward_op.register_fake
def _(x, a, b, key, form, q, channel_dim, alpha):  # type: ignore[no-untyped-def]
    return torch.empty_like(x)


@torch.library.custom_op("padenet::native_backward", mutates_args=())
def _backward_op(
    dy: Tensor, x: Tensor, a: Tensor, b: Tensor, key: Tensor | None,
    form: str, q: float, channel_dim: int, alpha: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    return backward(dy, x, a, b, key, Spec(form, q, channel_dim, alpha))


@_backward_op.register_fake
def _(dy, x, a, b, key, form, q, channel_dim, alpha):  # type: ignore[no-untyped-def]
    return torch.empty_like(x), a.new_empty(a.shape), b.new_empty(b.shape)
