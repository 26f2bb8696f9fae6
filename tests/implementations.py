"""The statements of the formula that ``test_conformance.py`` holds to the file of exact answers.

An implementation refuses what it does not take, with a reason; everything else it must get right.
A backend in ``padenet.torch.kernels.BACKENDS`` is tested as it stands there.
"""

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from conformance import LIMITS, NAMES, Case, computed_in, read
from interpreter import repeat_less

import padenet.numpy
from padenet.core import native, noise
from padenet.core.arrays import NUMPY, evaluate
from padenet.core.formula import Unit
from padenet.core.printing import write
from padenet.torch import reference
from padenet.torch.deploy import exporting
from padenet.torch.kernels import BACKENDS, gpu
from padenet.torch.kernels.gpu import fused

COMPILER = shutil.which(os.environ.get("CC", "cc")) or shutil.which("g++")
DEVICES = ("cpu", "cuda")[: 1 + torch.cuda.is_available()]
INTERPRETED = not torch.cuda.is_available()
Answers = dict[str, Any]  # some of y, dx, da, db


class Implementation(NamedTuple):
    """``run`` answers a case in a dtype of x, ``refuses`` says why not.

    ``spare`` is what y may be off besides the bounds of the file, ``missing`` the device or
    package without which there is nothing to test. A slow one answers some of the cases.
    """

    run: Callable[[Case, str], Answers]
    refuses: Callable[[Case, str], str | None] = lambda case, dtype: None
    spare: Callable[[Case, str], Any] = lambda case, dtype: 0.0
    missing: Callable[[], str | None] = lambda: None
    slow: bool = False


def tensors(case: Case, dtype: str, device: str = "cpu") -> list[torch.Tensor]:
    """``dy, x, a, b``."""
    kept, wide = getattr(torch, dtype), getattr(torch, computed_in(dtype))
    dtypes = (kept, kept, wide, wide)
    values = (case.dy, case.x, case.a, case.b)
    return [torch.tensor(v).to(device, d) for v, d in zip(values, dtypes, strict=True)]


def numbers(t: torch.Tensor) -> np.ndarray:
    return t.detach().cpu().double().numpy()


def on_tensors(
    module: Any, device_of: Callable[[Case, str], str]
) -> Callable[[Case, str], Answers]:
    """What a backend gives, and the reference, which has its functions."""

    def run(case, dtype):
        dy, *inputs = tensors(case, dtype, device_of(case, dtype))
        key = None if case.key is None else torch.tensor(case.key)
        with np.errstate(all="ignore"):  # of Triton's interpreter
            found = (
                module.forward(*inputs, key, case.spec),
                *module.backward(dy, *inputs, key, case.spec),
            )
        return {name: numbers(t) for name, t in zip(NAMES, found, strict=True)}

    return run


def backend(name: str) -> Implementation:
    entry = BACKENDS[name]
    module, missing = entry.module, getattr(entry.module, "missing", lambda: None)
    if module is gpu and INTERPRETED:
        repeat_less()
        refuses = lambda case, dtype: "float64 is not taken" if dtype == "float64" else None
        return Implementation(
            on_tensors(module, lambda *_: "cpu"), refuses, missing=missing, slow=True
        )

    def reasons(case, dtype):
        return {d: entry.refuses(*tensors(case, dtype, d)[1:]) for d in DEVICES}

    def refuses(case, dtype):
        found = reasons(case, dtype)
        return None if None in found.values() else "; ".join(found.values())

    def device_of(case, dtype):
        return next(d for d, reason in reasons(case, dtype).items() if reason is None)

    return Implementation(on_tensors(module, device_of), refuses, missing=missing)


def only(*dtypes: str, noise: bool = False) -> Callable[[Case, str], str | None]:
    def refuses(case, dtype):
        if dtype not in dtypes:
            return f"{dtype} is not taken"
        return "there is no noise" if case.key is not None and not noise else None

    return refuses


def on_numpy(case: Case, dtype: str) -> Answers:
    dy, x, a, b = (np.asarray(v, computed_in(dtype)) for v in (case.dy, case.x, case.a, case.b))
    drawn = None
    if case.key is not None:
        index = np.arange(x.size).reshape(x.shape)
        drawn = noise.draw(np.array(case.key), index, a.shape[-1] + b.shape[-1])
        drawn = [(v / 4096 - 1).astype(x.dtype) for v in drawn]
    with np.errstate(all="ignore"):  # what is far is computed near too, and left
        unit = Unit(NUMPY, x, a, b, case.spec, drawn)
        found = (unit.F(), *unit.gradients(dy))
    return {n: np.zeros(0) if v is None else v for n, v in zip(NAMES, found, strict=True)}


def by_library(case: Case, dtype: str) -> Answers:
    dy, x = (v.astype(dtype) for v in (case.dy, case.x))
    a, b = (v.astype(computed_in(dtype)) for v in (case.a, case.b))
    form, q, channel_dim, _ = case.spec
    options = {"form": form, "q": q, "channel_dim": channel_dim}
    y = padenet.numpy.rational(x, a, b, **options)
    gradients = padenet.numpy.rational_vjp(dy, x, a, b, **options)
    return dict(zip(NAMES, (y, *gradients), strict=True))


def on_jax(native: bool) -> Callable[[Case, str], Answers]:
    """The custom call of the CPU, or the formula as other devices have it."""

    def run(case, dtype):
        import jax

        from padenet.jax import primitives

        kept, wide = (jax.numpy.dtype(d) for d in (dtype, computed_in(dtype)))
        with jax.enable_x64(True):  # cast outside XLA, which flushes subnormal numbers
            dy, x = (jax.numpy.asarray(v.astype(kept)) for v in (case.dy, case.x))
            a, b = (jax.numpy.asarray(v.astype(wide)) for v in (case.a, case.b))
            spec = case.spec._replace(channel_dim=case.spec.channel_dim % max(x.ndim, 1))
            key = [] if case.key is None else [words_of_key(case.key)]
            if native:
                rest = dict(spec=spec, **primitives.MARK)
                forward, backward = primitives.forward_p.bind, primitives.backward_p.bind
            else:
                rest = dict(spec=spec)
                forward, backward = map(
                    _jitted, (primitives.plain_forward, primitives.plain_backward)
                )
            found = (forward(x, a, b, *key, **rest), *backward(dy, x, a, b, *key, **rest))
        return {n: np.asarray(v).astype(float) for n, v in zip(NAMES, found, strict=True)}

    return run


@cache
def _jitted(f: Callable) -> Callable:
    import jax

    return jax.jit(f, static_argnames="spec")


def words_of_key(key: int) -> np.ndarray:
    return np.array([key >> 32 & 0xFFFFFFFF, key & 0xFFFFFFFF], np.uint32)


def jax_missing() -> str | None:
    return None if find_spec("jax") else "jax is not installed"


def jax_native_missing() -> str | None:
    if reason := jax_missing():
        return reason
    from padenet.jax.native import missing

    return missing()


def subnormal(case: Case, dtype: str) -> float:
    """XLA flushes subnormal numbers to zero on the CPU."""
    return LIMITS[computed_in(dtype)].smallest * 2.0**24


def fused_refuses(case: Case, dtype: str) -> str | None:
    """As the contract of ``fused`` and its note on SCALE have it."""
    if reason := only("float32", "bfloat16", "float16")(case, dtype):
        return reason
    n = case.b.shape[-1] - case.spec.constant
    for a, b in zip(np.atleast_2d(case.a), np.atleast_2d(case.b), strict=True):
        bottom = b if case.spec.constant else [0.0, *b]
        columns = [[c[j] for c in (a, bottom) if j < len(c)] for j in range(max(len(a), n + 1))]
        leading = next((c for c in reversed(columns) if any(c)), [1.0])
        if max(map(abs, (*a, *b))) > 2.0**56 or max(map(abs, leading)) < 2.0**-67:
            return "the coefficients are too large, or the leading one is too small"
    return None


def exported(form: str) -> Callable[[Case, str], Answers]:
    def run(case, dtype):
        _, x, a, b = tensors(case, dtype)
        if form == "forward":
            return {"y": numbers(exporting.forward(x, a, b, case.spec))}
        rows = (tuple(map(tuple, np.atleast_2d(c).tolist())) for c in (case.a, case.b))
        return {"y": numbers(exporting.fixed(x, a, b, *rows, case.spec))}

    return run


def exporter_refuses(case: Case, dtype: str) -> str | None:
    if reason := only(*LIMITS)(case, dtype):
        return reason
    if max(abs(case.a).sum(-1).max(), (abs(case.b).sum(-1) + 1).max()) > 2.0**14:
        return "the coefficients add up to more than 2^14"
    return "poles and x = inf are as they come" if np.isinf(case.x).any() else None


def exporter_spare(case: Case, dtype: str) -> np.ndarray:
    """``(r_P + r_Q) |F|`` beyond L, and below 2^-126 P(L) where m < n and Q overflows."""
    m, n = case.degrees
    room = exporting.ROOM[getattr(torch, computed_in(dtype))]
    limit, largest = 2.0 ** (room // max(n, 1)), 2.0 ** ((room + 8) // max(n, 1))
    if not (m and n):
        return np.zeros(1)
    spare, y = np.zeros(case.x.shape), abs(case.answers["y"].reshape(case.x.shape))
    for here, a, b in case.units():
        b = [case.spec.q + b[0], *b[1:]] if case.spec.constant else [case.spec.q, *b]
        rest = 0.0
        for c in (abs(np.array(a)), abs(np.array(b))):
            powers = limit ** -np.arange(len(c) - 1.0, 0, -1)
            rest += (c[:-1] / c[-1]) @ powers if c[-1] else np.inf
        beyond = 2 * rest * np.where(np.isfinite(y), y, 0.0) if rest < np.inf else np.inf
        small = abs(a).sum() * largest**m * 2.0**-126 if m < n else 0.0
        spare = np.where(here & (abs(case.x) > limit), beyond + small, spare)
    return spare.ravel()


def fixed_spare(case: Case, dtype: str) -> np.ndarray:
    """Taken apart at a zero, rounding is at most m times that of Horner's rule for P."""
    own = case.errors[computed_in(dtype)]["y"]
    return exporter_spare(case, dtype) + max(case.degrees[0] - 1, 0) * own


def plain_refuses(case: Case, dtype: str) -> str | None:
    """The formula as it is written, with no care for powers that overflow."""
    if reason := only("float64")(case, dtype):
        return reason
    size = np.nan_to_num(abs(case.x).max(initial=0.0, where=~np.isnan(case.x)), posinf=np.inf)
    count = max(case.a.shape[-1], case.b.shape[-1] + 1)
    top = 1 + abs(case.a).max(initial=0.0) + abs(case.b).max(initial=0.0)
    with np.errstate(over="ignore"):
        largest = count * top * max(size, 1.0) ** (count - 1)
    return None if largest < 2.0**1000 else "powers overflow"


def printed_python(case: Case, dtype: str) -> Answers:
    y = np.zeros(case.x.shape)
    for here, a, b in case.units():
        scope: dict[str, Any] = {}
        exec(write(a, b, case.spec, "python"), scope)
        y[here] = scope["pau"](case.x[here])
    return {"y": y}


class PrintedC:
    """All units of all cases as functions of one library, which is compiled once."""

    def __init__(self):
        self.names: dict[tuple, str] = {}
        self.library = None

    def __call__(self, case: Case, dtype: str) -> Answers:
        library = self.library or self._compile()
        y = np.zeros(case.x.shape)
        for here, a, b in case.units():
            pau = getattr(library, self.names[write(a, b, case.spec, "c")])
            pau.restype, pau.argtypes = ctypes.c_double, [ctypes.c_double]
            y[here] = [pau(v) for v in case.x[here]]
        return {"y": y}

    def _compile(self):
        taken = [c for c in read()[0] if "float64" in c.dtypes and not plain_refuses(c, "float64")]
        for case in taken:
            for _, a, b in case.units():
                self.names.setdefault(write(a, b, case.spec, "c"), f"pau_{len(self.names)}")
        text = "\n".join(t.replace(" pau(", f" {name}(") for t, name in self.names.items())
        with tempfile.TemporaryDirectory() as folder:
            code, library = Path(folder) / "units.c", Path(folder) / "units.so"
            code.write_text(text)
            command = [COMPILER, "-x", "c", "-Wall", "-Werror", "-shared", "-fPIC", "-o", library]
            subprocess.run([*command, code], check=True)
            self.library = ctypes.CDLL(str(library))
        return self.library


IMPLEMENTATIONS = {
    **{name: backend(name) for name in BACKENDS},
    "reference": Implementation(on_tensors(reference, lambda *_: "cpu")),
    "NumPy": Implementation(on_numpy, only("float32", "float64", noise=True)),
    "padenet.numpy": Implementation(
        by_library, only("float16", "float32", "float64"), missing=native.missing
    ),
    "padenet.jax": Implementation(on_jax(True), missing=jax_native_missing),
    "padenet.jax, formula": Implementation(
        on_jax(False), spare=subnormal, missing=jax_missing, slow=True
    ),
    "NumPy, evaluate": Implementation(
        lambda case, dtype: {"y": evaluate(case.x, case.a, case.b, case.spec)}, only("float64")
    ),
    "fused": Implementation(
        lambda case, dtype: {"y": numbers(fused.forward(*tensors(case, dtype)[1:], case.spec))},
        fused_refuses,
    ),
    "exported": Implementation(exported("forward"), exporter_refuses, exporter_spare),
    "frozen": Implementation(exported("fixed"), exporter_refuses, fixed_spare),
    "printed Python": Implementation(printed_python, plain_refuses),
    "printed C": Implementation(
        PrintedC(), plain_refuses, missing=lambda: None if COMPILER else "no C compiler"
    ),
}
