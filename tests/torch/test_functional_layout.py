"""``rational`` on any tensor: shapes, strides, groups; without copies; the same bits every time."""

import math

import numpy as np
import pytest
import torch
from backends import running_on
from exact import exact
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch.profiler import ProfilerActivity, profile

from padenet import rational
from padenet.core.forms import FORMS

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
LAYOUTS = ["contiguous", "channels_last", "permuted", "stepped", "unaligned", "expanded"]
DY_LAYOUTS = [*LAYOUTS, "as x", "one number"]


def everything(dy, x, a, b, **options):
    x, a, b = (t.detach().requires_grad_() for t in (x, a, b))
    y = rational(x, a, b, **options)
    return y.detach(), *torch.autograd.grad(y, (x, a, b), dy)


def laid_out(values, layout, order, dim):
    """The values in another layout; ``expanded`` repeats the first ones along ``dim``."""
    if layout == "channels_last":
        formats = {4: torch.channels_last, 5: torch.channels_last_3d}
        return values.contiguous(memory_format=formats.get(values.ndim, torch.contiguous_format))
    if layout == "permuted":
        back = np.argsort(order).tolist()
        return values.permute(order).contiguous().permute(back)
    if layout == "unaligned":
        return torch.cat([values.new_zeros(1), values.flatten()])[1:].view(values.shape)
    if values.ndim == 0 or values.shape[dim] == 0:
        return values
    if layout == "stepped":
        return values.repeat_interleave(3, dim)[(slice(None),) * dim + (slice(1, None, 3),)]
    if layout == "expanded":
        return values.narrow(dim, 0, 1).expand(values.shape)
    return values


def strides(t):
    """Those that mean something: a dim of one element may have any."""
    return [s for s, n in zip(t.stride(), t.shape, strict=True) if n > 1] if t.numel() else []


def is_dense(t):
    return sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True)) == t.numel() - 1


@st.composite
def problems(draw):
    shape = draw(st.lists(st.sampled_from([0, 1, 2, 3, 4, 6, 37]), max_size=5))
    assume(math.prod(shape) < 5000)
    gen = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    dtype, form = draw(st.sampled_from(DTYPES)), draw(st.sampled_from(list(FORMS)))
    rank = len(shape)
    channel_dim = draw(st.integers(-rank, rank - 1)) if rank else 1
    lead = ()
    if rank and draw(st.booleans()):
        channels = shape[channel_dim]
        lead = (draw(st.sampled_from([g for g in range(1, 38) if channels % g == 0])),)
    m, n = draw(st.sampled_from([(5, 4), (5, 4), (0, 2), (3, 0), (2, 3)]))

    make = lambda *s: torch.randn(s, generator=gen, dtype=torch.float64)
    order, dim = draw(st.permutations(range(rank))), draw(st.integers(0, max(rank - 1, 0)))
    x = laid_out(make(*shape).to(dtype), draw(st.sampled_from(LAYOUTS)), order, dim)
    layout = draw(st.sampled_from(DY_LAYOUTS))
    dy = make(*shape).to(dtype)
    if layout == "as x":
        dy = torch.empty_like(x).copy_(dy)
    elif layout == "one number":
        dy = make().to(dtype).expand(shape)
    else:
        dy = laid_out(dy, layout, draw(st.permutations(range(rank))), dim)
    coefficients = torch.float64 if dtype == torch.float64 else torch.float32
    a, b = (make(*lead, k).to(coefficients) for k in (m + 1, n + (form == "offset")))
    return dy, x, a, b, {"form": form, "channel_dim": channel_dim}


@settings(max_examples=150)
@given(problem=problems())
def test_any_layout_gives_what_the_contiguous_copy_gives(backend, problem):
    """y and dx bit by bit; the order of the sums may follow memory, so da and db up to rounding."""
    dy, x, a, b, options = problem
    before = [t.clone() for t in (dy, x, a, b)]
    got = everything(dy, x, a, b, **options)
    assert all(torch.equal(t, c) for t, c in zip((dy, x, a, b), before, strict=True))

    plain = [t.contiguous() for t in (dy, x, a, b)]
    want = everything(*plain, **options)
    for g, w in zip(got[:2], want[:2], strict=True):
        assert g.shape == x.shape and g.dtype == x.dtype and torch.equal(g, w)
    for g, w, near in zip(got[2:], want[2:], exact(*plain, **options)[2:], strict=True):
        off = (g - w).double().abs().numpy()
        assert (off <= 2 * near.e + torch.finfo(g.dtype).eps * abs(near.v)).all()


@settings(max_examples=150)
@given(problem=problems())
def test_output_is_laid_out_as_torch_does(backend, problem):
    dy, x, a, b, options = problem
    y, dx, da, db = everything(dy, x, a, b, **options)
    assert strides(y) == strides(x.abs())
    if backend in ("native", "plain") and is_dense(x):
        assert strides(dx) == strides(x)
    assert da.is_contiguous() and db.is_contiguous()


@pytest.mark.parametrize("transpose", [False, True])
def test_coefficients_may_be_views(transpose, gen, backend):
    tables = torch.randn(2, 3, 6, generator=gen)
    a = tables[0].t().contiguous().t() if transpose else tables[0][:, ::2]
    b = tables[1].t().contiguous().t() if transpose else tables[1, :1, 1::2].expand(3, -1)
    dy, x = torch.randn(2, 4, 6, 9, generator=gen)
    got = everything(dy, x, a, b)
    want = everything(dy, x, a.contiguous(), b.contiguous())
    assert all(torch.equal(g, w) for g, w in zip(got, want, strict=True))


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 4, 5), (2, 4, 0, 3)])
@pytest.mark.parametrize("groups", [None, 1])
def test_no_elements_give_zero_gradients(groups, shape, backend):
    lead = () if groups is None else (groups,)
    x, a, b = torch.ones(shape), torch.ones(*lead, 6), torch.ones(*lead, 4)
    y, dx, da, db = everything(torch.ones(shape), x, a, b, channel_dim=0)
    assert y.shape == dx.shape == x.shape
    assert torch.equal(da, torch.zeros_like(a)) and torch.equal(db, torch.zeros_like(b))


def allocated(f):
    """What ``f`` returns, and the bytes of each allocation it makes."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        out = f()
    return out, [e.self_cpu_memory_usage for e in record.events() if e.self_cpu_memory_usage > 0]


@pytest.mark.parametrize("groups", [None, 4])
@pytest.mark.parametrize("layout", ["contiguous", "channels_last", "permuted", "unaligned"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_no_hidden_copies(dtype, layout, groups, gen):
    """Forward allocates y, backward dx and the coefficients' gradients, and nothing else."""
    lead = () if groups is None else (groups,)
    a, b = (torch.randn(*lead, k, generator=gen).requires_grad_() for k in (6, 4))
    values = torch.randn(3, 8, 20, 20, generator=gen).to(dtype)
    x = laid_out(values, layout, (2, 0, 3, 1), 1).requires_grad_()
    size = x.numel() * x.element_size()
    for dy in (torch.ones_like(x), torch.ones((), dtype=dtype).expand_as(x)):
        with running_on("native"):
            y, forward = allocated(lambda: rational(x, a, b))
            _, backward = allocated(lambda y=y, dy=dy: torch.autograd.grad(y, (x, a, b), dy))
        assert [n for n in forward if n >= size // 4] == [size]
        assert [n for n in backward if n >= size // 4] == [size]


# Both torch and the native kernels give a thread 2^15 elements at least: enough for eight.
FOR_EIGHT = {
    "one unit": (((1 << 18) + 5,), None),
    "long runs": ((3, 8, 10_923), 4),
    "short runs": ((32_775, 8), 8),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("case", FOR_EIGHT)
def test_same_bits_for_any_number_of_threads(case, dtype, gen, backend):
    shape, groups = FOR_EIGHT[case]
    m, n = (5, 4) if backend == "native" else (2, 1)
    lead = () if groups is None else (groups,)
    a, b = torch.randn(*lead, m + 1, generator=gen), torch.randn(*lead, n, generator=gen)
    x, dy = (torch.randn(shape, generator=gen).to(dtype) for _ in range(2))
    runs = []
    for threads in (1, 1, 2, 3, 7):
        torch.set_num_threads(threads)
        runs.append(everything(dy, x, a, b))
    for run in runs[1:]:
        assert all(torch.equal(t, first) for t, first in zip(run, runs[0], strict=True))
