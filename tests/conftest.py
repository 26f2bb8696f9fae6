"""Shared fixtures: a seeded generator, poisoned memory, and each backend in turn."""

import pytest
import torch
from hypothesis import HealthCheck, settings

from padenet import functional, reference
from padenet.kernels import native
from padenet.tracing import is_plain

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


@pytest.fixture(params=["native", "reference"])
def backend(request, monkeypatch):
    """The test runs once on the C++ kernel and once on plain PyTorch."""
    if request.param == "reference":
        monkeypatch.setattr(functional, "pick", lambda x, a, b: reference)
    elif reason := native.missing():
        pytest.skip(f"no native kernel: {reason}")
    return request.param


@pytest.fixture
def restore_threads():
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
