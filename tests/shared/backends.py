"""``rational`` on one backend or another, the GPU's on whatever there is."""

from contextlib import contextmanager

import numpy as np
import pytest
import torch

from padenet.torch import functional, reference
from padenet.torch.kernels import BACKENDS, gpu, plain


class OnGPU:
    """The GPU kernels for tests on CPU tensors: on the GPU if there is one, else interpreted."""

    @staticmethod
    def forward(x, a, b, key, spec):
        with np.errstate(all="ignore"):  # of the interpreter
            return gpu.forward(*(_to_gpu(t) for t in (x, a, b)), key, spec).to(x.device)

    @staticmethod
    def backward(dy, x, a, b, key, spec):
        with np.errstate(all="ignore"):
            grads = gpu.backward(*(_to_gpu(t) for t in (dy, x, a, b)), key, spec)
        return tuple(g.to(x.device) for g in grads)


def _to_gpu(t):
    return t.cuda() if torch.cuda.is_available() else t


PLAIN = {"plain": plain, "reference": reference}


@contextmanager
def running_on(name):
    """``rational`` on a backend of the table, or on the judge; where one refuses, plain PyTorch."""
    backend = None if name == "reference" else BACKENDS[name]
    missing = getattr(backend and backend.module, "missing", lambda: None)
    if reason := missing():
        pytest.skip(f"no {name} kernel: {reason}")

    def pick(x, a, b):
        if backend is None:
            return reference
        if name == "gpu":
            return reference if x.dtype == torch.float64 else OnGPU
        return backend.module if backend.refuses(x, a, b) is None else plain

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(functional, "pick", pick)
        yield name
