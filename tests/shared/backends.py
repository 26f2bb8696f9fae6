"""``rational`` on one backend or another, the GPU's on whatever there is."""

from contextlib import contextmanager

import numpy as np
import pytest
import torch

from padenet.torch import functional, reference
from padenet.torch.kernels import gpu, native, plain


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


def _pick_gpu(x, a, b):
    return reference if x.dtype == torch.float64 else OnGPU


PLAIN = {"plain": plain, "reference": reference}


@contextmanager
def running_on(name):
    """``rational`` on one of the kernels, or in plain PyTorch, the judge included."""
    module = {"native": native, "gpu": gpu}.get(name)
    if module and (reason := module.missing()):
        pytest.skip(f"no {name} kernel: {reason}")
    with pytest.MonkeyPatch.context() as patch:
        if name in PLAIN:
            patch.setattr(functional, "pick", lambda x, a, b: PLAIN[name])
        if name == "gpu":
            patch.setattr(functional, "pick", _pick_gpu)
        yield name
