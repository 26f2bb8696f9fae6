"""What only the C++ kernel can do wrong."""

import os
import subprocess
import sys

import pytest
import torch
from backends import running_on

import padenet
from padenet import PAU, rational
from padenet.core import native


@pytest.mark.no_poison  # it fills with torch, which waits too
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_forked_child_does_not_wait_for_threads_it_lacks():
    with running_on("native"):
        torch.set_num_threads(2)
        unit, x = PAU(), torch.randn(1 << 20)
        fork = torch.multiprocessing.get_context("fork")
        child = fork.Process(target=compare, args=(unit, x, unit(x)))
        child.start()
        child.join(20)
        alive = child.is_alive()
        child.kill()
        assert not alive and child.exitcode == 0


def compare(unit, x, want):
    got = unit(x)
    torch.set_num_threads(1)  # torch's own operations would wait
    os._exit(0 if torch.equal(got, want) else 1)


def run_with(isa):
    code = "import torch, padenet; padenet.PAU()(torch.ones(3))"
    env = {**os.environ, "PADENET_ISA": isa}
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)


def test_a_misspelt_instruction_set_is_an_error():
    run = run_with("avx-512")
    assert run.returncode and "'avx-512'. Known: baseline, avx2, avx512." in run.stderr
    assert run_with("baseline").returncode == 0


def test_advice_leaves_torch_alone(monkeypatch):
    monkeypatch.setattr(padenet, "__path__", [])
    reason = native._find.__wrapped__()[1]
    assert "--force-reinstall --no-deps" in reason


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_float32_rounded_once(dtype):
    every = torch.arange(-(2**15), 2**15).to(torch.int16).view(dtype)
    near = every[every.abs() < 1000]  # where float32 goes through the same arithmetic
    unit = PAU()
    identity = torch.tensor([0.0, 1, 0, 0, 0, 0]), torch.zeros(4)
    with running_on("native"), torch.no_grad():
        assert torch.equal(unit(near), unit(near.float()).to(dtype))
        numbers = every[every.isfinite()]
        assert torch.equal(rational(numbers, *identity), numbers)
        assert torch.equal(rational(every, *identity).isnan(), every.isnan())
