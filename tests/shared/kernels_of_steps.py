"""The kernels of ``padenet.stabilize`` by name, and where their tensors live."""

import pytest
import torch
from interpreter import repeat_less

from padenet.torch.kernels import gpu, native, native_steps


def find_steps(name):
    """The module, and a device; skips where there is none."""
    if reason := {"native": native, "gpu": gpu}[name].missing():
        pytest.skip(f"no {name} kernel: {reason}")
    if name == "native":
        return native_steps, "cpu"
    repeat_less()
    from padenet.torch.kernels.gpu import steps

    return steps, "cuda" if torch.cuda.is_available() else "cpu"
