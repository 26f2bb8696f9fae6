"""Backends: one forward/backward pair each, picked by the tensor that arrives.

A backend is a module with

    forward(x, a, b, key, spec) -> y
    backward(dy, x, a, b, key, spec) -> dx, da, db

for the formula in ``padenet.core.formula``. ``plain`` is the backend of last resort. ``key`` is
the key of the noise or None.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import ModuleType

from torch import Tensor

from padenet.core.native import missing, status
from padenet.torch.kernels import gpu, native, plain


@dataclass(frozen=True)
class Backend:
    module: ModuleType
    device: str | None  # the only one that it is for
    refuses: Callable[..., str | None]  # why it cannot take (x, a, b), or None
    status: Callable[[], str]  # what it is here, for ``backends()``


BACKENDS = {
    "native": Backend(native, "cpu", native.refuses, status),
    "gpu": Backend(gpu, "cuda", gpu.refuses, gpu.status),
    "plain": Backend(plain, None, lambda x, a, b: None, lambda: "plain PyTorch, any device"),
}
"""In the order in which they are asked."""

_KERNELS = {
    device: [(b.refuses, b.module) for b in BACKENDS.values() if b.device == device]
    for device in ("cpu", "cuda")
}


def pick(x: Tensor, a: Tensor, b: Tensor) -> ModuleType:
    """The first backend that takes these tensors."""
    for refuses, kernel in _KERNELS["cuda" if x.is_cuda else "cpu"]:
        if refuses(x, a, b) is None:
            return kernel
    if x.is_cpu:
        _warn_if_missing()
    return plain


def backends() -> dict[str, str]:
    """What each backend is on this machine, in the order in which they are asked.

    >>> padenet.backends()
    {'native': 'C++, avx512, OpenMP', 'plain': 'plain PyTorch, any device'}
    """
    return {name: backend.status() for name, backend in BACKENDS.items()}


@cache
def _warn_if_missing() -> None:
    if reason := missing():
        warnings.warn(
            f"padenet runs on plain PyTorch, much slower than its C++ kernel: {reason}",
            RuntimeWarning,
            stacklevel=2,
        )
