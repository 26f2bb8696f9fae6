"""Shared fixtures: a seeded generator, poisoned memory, and each backend in turn."""

import os

# Read when numpy is first imported. Threads of BLAS that wait for each other on busy cores cost
# more than the small matrices of a fit.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
import torch
from backends import PLAIN, running_on
from hypothesis import HealthCheck, settings

from padenet.torch.tracing import is_plain

# Read when oneDNN is first used. Some virtual machines announce AMX and die of its instructions.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
if not torch.cuda.is_available():  # Triton interprets the kernels, on CPU tensors
    os.environ["TRITON_INTERPRET"] = "1"

pytest_plugins = ["pages"]  # a browser, where there is one

with torch.device("cpu"):  # torch lists its constructors here, once: before any is poisoned
    torch.zeros(1)

settings.register_profile(
    "padenet",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
settings.load_profile("padenet")


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "no_poison: leave torch.empty alone, for tests in which torch traces our code"
    )


@pytest.fixture(autouse=True)
def poisoned_empty(request, monkeypatch):
    """``torch.empty*`` returns NaN, so a kernel that skips an element fails loudly."""
    if request.node.get_closest_marker("no_poison"):
        return
    for name in ("empty", "empty_like"):
        original = getattr(torch, name)

        def poisoned(*args, _original=original, **kwargs):
            out = _original(*args, **kwargs)
            if out.is_floating_point() and is_plain(out):
                with torch.no_grad():
                    out.fill_(float("nan"))
            return out

        monkeypatch.setattr(torch, name, poisoned)


@pytest.fixture
def gen():
    return torch.Generator().manual_seed(0)


@pytest.fixture(params=["native", *["gpu"] * torch.cuda.is_available(), *PLAIN])
def backend(request):
    """The test runs once on each backend. Interpreted, the GPU kernels are too slow for that:
    ``test_gpu.py`` has a choice."""
    with running_on(request.param) as name:
        yield name


@pytest.fixture(autouse=True)
def one_thread():
    """Test processes share the cores among them; a test about threads sets its own number."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
