"""Shared fixtures: a seeded generator, poisoned memory, and each backend in turn."""

from contextlib import contextmanager

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


@contextmanager
def running_on(name):
    """``rational`` on the C++ kernel, or on plain PyTorch as where there is no kernel."""
    if name == "native" and (reason := native.missing()):
        pytest.skip(f"no native kernel: {reason}")
    with pytest.MonkeyPatch.context() as patch:
        if name == "reference":
            patch.setattr(functional, "pick", lambda x, a, b: reference)
        yield name


@pytest.fixture(params=["native", "reference"])
def backend(request):
    """The test runs once on each backend."""
    with running_on(request.param) as name:
        yield name


@pytest.fixture(autouse=True)
def one_thread():
    """Test processes share the cores among them; a test about threads sets its own number."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
