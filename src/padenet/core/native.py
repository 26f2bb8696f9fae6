"""The bridge to the C++ library (``native/``): finds it, packs a problem as addresses, calls it."""

import ctypes
import os
import struct
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from padenet.core.forms import FORMS, Spec

MAX_DEGREE = 32
MAX_RANK = 8
_ABI = 4
DTYPES = ("float32", "float64", "bfloat16", "float16")
"""Known to the library, by their places."""

_PROBLEM = struct.Struct("=7Q13qQ2d")
_DIM = struct.Struct("=2q")
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


def run(
    entry: str,
    addresses: tuple[int, int, int, int, int, int, int],
    sizes: tuple[int, int, int, int],
    dtypes: tuple[int, int],
    degrees: tuple[int, int],
    spec: Spec,
    threads: int,
    one_number: bool = False,
    key: int | None = None,
    dims: Sequence[tuple[int, int]] = (),
) -> None:
    """Run ``forward`` or ``backward`` on ``struct Problem`` of ``native/problem.h``.

    Args:
        addresses: Of x, dy, y or dx, a, b, da, db; 0 for what is not there.
        sizes: (outer, channels, inner, groups): x as a dense matrix of these in memory order.
        dtypes: Of x and of the coefficients, as places in ``DTYPES``.
        one_number: Whether dy is a single number.
        key: Of the noise, if there is some.
        dims: With noise (size, stride in the order of the shape) of each dim of x, from the
            largest stride in memory to the smallest; none where memory has the order of the shape.
    """
    form, q, _, alpha = spec
    problem = _PROBLEM.pack(
        *addresses,
        *sizes,
        *dtypes,
        FORMS[form].code,
        *degrees,
        1 if _forked else threads,
        one_number,
        key is not None,
        len(dims),
        key or 0,
        q,
        alpha,
    )
    if dims:
        problem += b"".join([_DIM.pack(*dim) for dim in dims])
    if code := _entry(entry)(problem):
        raise MemoryError(f"{entry} could not allocate its partial sums (code {code})")


def call(entry: str, arguments: bytes) -> int:
    """An entry point of the library with its packed struct."""
    return _entry(entry)(arguments)


def address(entry: str) -> Any:
    """An entry point, for those who call it themselves. AttributeError where there is none."""
    return getattr(_find()[0], entry)


def is_forked() -> bool:
    """The threads of OpenMP do not survive a fork: a child that asks for them waits for ever."""
    return _forked


_forked = False


def _after_fork() -> None:
    global _forked
    _forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@cache
def _entry(name: str) -> Callable[[bytes], int]:
    return getattr(_find()[0], name)
