"""Tiles of the GPU kernels at the end of a tensor: what they read and write there.

A tile that would reach beyond the end lies farther back, over another. Where there is no GPU,
Triton's interpreter says which addresses are read and written.
"""

import numpy as np
import pytest
import torch
from backends import OnGPU
from exact import assert_near, exact
from hypothesis import given, settings
from hypothesis import strategies as st
from interpreter import repeat_less

from padenet.core.forms import Spec
from padenet.torch.kernels import gpu
from padenet.torch.kernels.gpu import plan

pytest.importorskip("triton")
repeat_less()
F32, BF16, F16 = torch.float32, torch.bfloat16, torch.float16
NAMES = ("y", "dx", "da", "db")
LRELU = [0.0336, 0.505, 1.6534, 2.0099, 0.9319, 0.1524], [0.0, 3.9801, 0.0, 0.3018]


class Memory:
    """In place of what the interpreter loads and stores with: notes the addresses."""

    def __init__(self, real):
        self.real, self.read, self.written = real, [], []

    def load(self, addresses, mask, other, dtype):
        self.read.append((addresses[mask].ravel(), dtype.itemsize))
        return self.real.load(addresses, mask, other, dtype)

    def store(self, addresses, values, mask):
        self.written.append((addresses[mask].ravel(), values.dtype.itemsize))
        return self.real.store(addresses, values, mask)

    def __getattr__(self, name):
        return getattr(self.real, name)


def span(t):
    return t.data_ptr(), t.data_ptr() + t.numel() * t.element_size()


def is_in_one_of(accesses, tensors):
    spans = [span(t) for t in tensors]
    for addresses, size in accesses:
        inside = [(addresses >= begin) & (addresses + size <= end) for begin, end in spans]
        if not np.any(inside, axis=0).all():
            return False
    return True


def times_written(accesses, t):
    """For each byte of ``t``."""
    begin, end = span(t)
    times = np.zeros(end - begin, np.int64)
    for addresses, size in accesses:
        here = (addresses[(addresses >= begin) & (addresses < end)] - begin).astype(np.int64)
        for byte in range(size):
            np.add.at(times, here + byte, 1)
    return times


def cut_into(patch, at_once, waves, big=False):
    """Plans as for a small GPU, so that a tensor has many programs, or as for one of 2^31 elements;
    nothing is kept of them."""
    if big:
        patch.setattr(plan, "_BIG", 0)
    patch.setattr(plan, "_SMALL", 100)
    patch.setattr(plan, "_at_once", lambda registers, device: at_once)
    if waves:
        patch.setattr(plan, "_waves", lambda length, most, *case: waves)
    patch.setattr(gpu, "plan_for", plan.plan_for.__wrapped__)


@st.composite
def problems(draw):
    """A shape whose last tiles are cut in many ways, and groups: none, long spans or columns."""
    kind = draw(st.sampled_from(["flat", "runs", "lanes"]))
    if kind == "flat":
        return (draw(st.integers(400, 3000)),), None
    groups = draw(
        st.sampled_from([1, 2, 3]) if kind == "runs" else st.sampled_from([16, 21, 64, 96])
    )
    of_one = draw(st.sampled_from([32, 33, 48, 64])) if kind == "runs" else 1
    return (draw(st.integers(1, 45)), groups * of_one), groups


@pytest.mark.skipif(torch.cuda.is_available(), reason="only the interpreter names the addresses")
@settings(max_examples=40)
@given(
    problem=problems(),
    dtype=st.sampled_from([F32, BF16]),
    at_once=st.sampled_from([1, 3, 13]),
    waves=st.sampled_from([None, (2, 1), (3, 3)]),
    one_dy=st.booleans(),
    noise=st.booleans(),
    big=st.booleans(),
)
def test_nothing_is_read_outside_and_everything_written_once(
    problem, dtype, at_once, waves, one_dy, noise, big
):
    from triton.runtime import interpreter

    shape, groups = problem
    gen = torch.Generator().manual_seed(0)
    x = torch.randn(shape, generator=gen).to(dtype)
    dy = torch.ones((), dtype=dtype).expand(shape) if one_dy else torch.ones_like(x)
    a, b = (torch.tensor(c) for c in LRELU)
    if groups:
        a, b = a.repeat(groups, 1), b.repeat(groups, 1)
    key, spec = torch.tensor(7) if noise else None, Spec(alpha=0.1 if noise else 0.0)
    known = []
    with pytest.MonkeyPatch.context() as patch:
        cut_into(patch, at_once, waves, big)
        memory = Memory(interpreter._interpreter)
        patch.setattr(interpreter, "_interpreter", memory)
        for name, at in (("_launch", 1), ("_launch_total", 2)):
            launch = getattr(gpu, name)
            patch.setattr(
                gpu, name, lambda *args, _do=launch, _at=at: known.extend(args[_at]) or _do(*args)
            )
        y = gpu.forward(x, a, b, key, spec)
        dx, *_ = gpu.backward(dy, x, a, b, key, spec)
    assert memory.read and memory.written
    assert is_in_one_of(memory.read + memory.written, known)
    assert np.array_equal(times_written(memory.written, y), np.ones(y.nbytes))
    assert np.array_equal(times_written(memory.written, dx), np.ones(dx.nbytes))


ENDS = {"flat": ((1100,), None), "runs": ((37, 128), 2), "lanes": ((37, 64), 64)}


@pytest.mark.parametrize("dtype", [F32, F16], ids=str)
@pytest.mark.parametrize("shape, groups", ENDS.values(), ids=list(ENDS))
def test_far_elements_where_two_tiles_lie_over_each_other(shape, groups, dtype, gen, monkeypatch):
    """Of the last tile and of the one before: each is redone by its own program alone."""
    cut_into(monkeypatch, 3, None)
    x, dy = torch.randn(2, *shape, generator=gen).to(dtype)
    flat = x.view(-1)
    flat[-700::61] = 6e4 if dtype == F16 else 1e30
    flat[-3] = -6e4 if dtype == F16 else -2e25
    a, b = (torch.tensor(c) for c in LRELU)
    if groups:
        a, b = a.repeat(groups, 1), b.repeat(groups, 1)
    spec = Spec(channel_dim=1 if groups else 0)
    got = OnGPU.forward(x, a, b, None, spec), *OnGPU.backward(dy, x, a, b, None, spec)
    want = exact(dy, x, a, b, channel_dim=spec.channel_dim)
    for name, g, w in zip(NAMES, got, want, strict=True):
        assert_near(g, w, name)


@pytest.mark.parametrize("shape, groups", ENDS.values(), ids=list(ENDS))
def test_a_pole_where_two_tiles_lie_over_each_other(shape, groups, gen, monkeypatch):
    """The program that does not own it adds nothing, not 0 times infinity."""
    cut_into(monkeypatch, 3, None)
    x = torch.randn(shape, generator=gen) * 0.3
    x.view(-1)[-480 if groups is None else -shape[1] * 14] = 1.0
    a, b = torch.tensor([1.0, 1.0]), torch.tensor([-1.0])
    if groups:
        a, b = a.repeat(groups, 1), b.repeat(groups, 1)
    spec = Spec(form="free", channel_dim=1 if groups else 0)
    _, da, db = OnGPU.backward(torch.ones_like(x), x, a, b, None, spec)
    unit = slice(None) if groups is None else 0
    assert (da[unit] == torch.inf).all() and (db[unit] == -torch.inf).all()
