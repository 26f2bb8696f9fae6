"""``rational`` at every finite x, at infinity and NaN, against MPFR.

One unit per channel and one element per unit: every element's own da and db are seen, not their
sum. Right means: finite where the exact value can be stored, infinite where it overflows, and
within a few roundings times the conditioning (``exact.py``). ``dy`` is 1, tiny or huge too: a
gradient can be an ordinary number where dy or the derivative alone is not. What overflows or
underflows on the way only is in the conformance file.
"""

import math
from functools import cache
from itertools import product

import numpy as np
import pytest
import torch
from backends import PLAIN, running_on
from exact import Exact, Near, assert_near, excess

from padenet import rational
from padenet.core.forms import FORMS

NAMES = ("y", "dx", "da", "db")
INF, NAN = float("inf"), float("nan")


def random(count, seed):
    return torch.randn(count, generator=torch.Generator().manual_seed(seed)).tolist()


LRELU = [0.033559, 0.505, 1.653407, 2.009933, 0.93185, 0.152413], [0, 3.98006, 0, 0.301807]
UNITS = {
    "lrelu start": LRELU,
    "random": (random(6, 0), random(4, 1)),
    "a_5 = 0": ([*random(5, 2), 0.0], random(4, 3)),
    "b_4 = 0": (random(6, 4), [*random(3, 5), 0.0]),
    "b = 0": (random(6, 6), [0.0] * 4),
    "identity": ([0.0, 1.0, 0.0, 0.0, 0.0, 0.0], [0.0] * 4),
    "x over Q": ([0.0, 1.0, 0.0, 0.0, 0.0, 0.0], random(4, 7)),
    "a = 0": ([0.0] * 6, random(4, 8)),
    "all zero": ([0.0] * 6, [0.0] * 4),
    "tiny a_5, b_4": ([*random(5, 9), 1e-8], [*random(3, 10), 1e-8]),
    "large": ([1e8 * v for v in random(6, 11)], [1e8 * v for v in random(4, 12)]),
    "(0, 0)": (random(1, 13), []),
    "(3, 0)": (random(4, 14), []),
    "(0, 5)": (random(1, 15), random(5, 16)),
    "(4, 5)": (random(5, 17), random(5, 18)),
    "(7, 6)": (random(8, 19), random(6, 20)),
    "(12, 12)": (random(13, 21), random(12, 22)),
}
EVERY_FORM = ["lrelu start", "b_4 = 0", "b = 0", "all zero", "tiny a_5, b_4", "(4, 5)"]
CASES = [("safe", unit) for unit in UNITS]
CASES += [(form, unit) for form in FORMS if form != "safe" for unit in EVERY_FORM]
DY = {
    torch.float64: (1.0, 2.0**-480, 2.0**900),
    torch.float32: (1.0, 2.0**-60, 2.0**100),
    torch.bfloat16: (1.0, 2.0**-60, 2.0**100),
    torch.float16: (1.0, 2.0**-24, 65504.0),
}


def coefficients(form, unit, dtype):
    a, b = UNITS[unit]
    b = [0.3, *b] if form == "offset" else b
    return torch.tensor(a, dtype=dtype), torch.tensor(b, dtype=dtype)


def grid(dtype):
    """0, the whole range in powers of two, subnormals and the largest of each narrower type, inf.

    1.375 has few bits: bfloat16 and float16 hold most of these numbers exactly as well.
    """
    narrower = [t for t in DY if torch.finfo(t).eps >= torch.finfo(dtype).eps]
    infos = [torch.finfo(t) for t in narrower if t != torch.float64 or dtype == torch.float64]
    low, high = math.log2(infos[0].smallest_normal * infos[0].eps), math.log2(infos[0].max)
    step = 90 if dtype == torch.float64 else 14
    values = [0.0, INF, *(1.375 * 2.0**k for k in range(int(low) + 3, int(high), step))]
    values += [i.smallest_normal * i.eps for i in infos] + [i.max for i in infos]
    values += [i.smallest_normal for i in infos] + [2.0**k for k in (-3, 5, 12, 20)]
    values = torch.tensor(sorted(set(values)), dtype=torch.float64)
    return torch.cat([-values, values]).to(dtype)


def everything(dy, x, a, b, **options):
    x, a, b = (t.detach().requires_grad_() for t in (x, a, b))
    y = rational(x, a, b, **options)
    return y.detach(), *torch.autograd.grad(y, (x, a, b), dy)


def rows(near, keep):
    by_element = near.v.shape[0] == 1
    pick = lambda t: t[:, keep] if by_element else t[keep]
    return Near(pick(near.v), pick(near.e))


@pytest.mark.parametrize("computed_in", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("form, unit", CASES)
def test_right_at_every_x(form, unit, computed_in):
    wide = grid(computed_in)[None]
    a, b = (c.expand(wide.shape[1], -1) for c in coefficients(form, unit, computed_in))
    judge = Exact(wide, a, b, form=form, digits="mpfr")
    want = cache(lambda scale: (judge.y, *judge.gradients(torch.full_like(wide, scale))))

    for dtype in [t for t in DY if (t == torch.float64) == (computed_in == torch.float64)]:
        held = (wide.to(dtype).to(computed_in) == wide)[0]
        x = wide[:, held].to(dtype)
        for scale, backend in product(DY[dtype], ("native", *PLAIN)):
            with running_on(backend):
                got = everything(torch.full_like(x, scale), x, a[held], b[held], form=form)
            for name, g, w in zip(NAMES, got, want(scale), strict=True):
                assert_near(g, rows(w, held.numpy()), f"{backend} {dtype} dy={scale} {name}")


@pytest.mark.parametrize("dtype", DY, ids=str)
@pytest.mark.parametrize("form", FORMS)
def test_tiny_leading_coefficients(form, dtype, backend):
    """b_4 = 1e-20, as when it decays to zero: 1 / Q x^4 is 1e20 from some x on."""
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    a = torch.tensor([*random(5, 23), 1e-20], dtype=wide)
    b = torch.tensor([*random(3 + (form == "offset"), 24), 1e-20], dtype=wide)
    x = grid(dtype)[None]
    a, b = (c.expand(x.shape[1], -1) for c in (a, b))
    judge = Exact(x, a, b, form=form, digits="mpfr")
    got, dy = everything(torch.ones_like(x), x, a, b, form=form), torch.ones_like(x)
    for name, g, w in zip(NAMES, got, (judge.y, *judge.gradients(dy)), strict=True):
        assert_near(g, w, name)


@pytest.mark.parametrize("dtype", DY, ids=str)
@pytest.mark.parametrize("form, unit", CASES)
def test_zero_dy_gives_zero_at_every_finite_x(form, unit, dtype, backend):
    """Also where the derivative it multiplies overflows: 0 times inf must not appear."""
    x = grid(dtype)
    x = x[x.isfinite()]
    a, b = coefficients(form, unit, torch.float64 if dtype == torch.float64 else torch.float32)
    _, *gradients = everything(torch.zeros_like(x), x, a, b, form=form)
    assert not any(g.any() for g in gradients)


@pytest.mark.parametrize("dtype", DY, ids=str)
@pytest.mark.parametrize("form", FORMS)
def test_nan_comes_out_only_where_it_went_in(form, dtype, backend):
    x = torch.linspace(-9, 9, 75, dtype=torch.float64).to(dtype)
    a, b = coefficients(form, "random", torch.float32)
    y, dx, *_ = everything(torch.ones_like(x), x, a, b, form=form)
    for at in (0, 7, 31, 32, 74):
        spoilt = x.clone()
        spoilt[at] = NAN
        got = everything(torch.ones_like(x), spoilt, a, b, form=form)
        for g, w in zip(got[:2], (y, dx), strict=True):
            others = torch.arange(len(x)) != at
            assert g[at].isnan() and torch.equal(g[others], w[others])
        assert all(g.isnan().all() for g in got[2:])


@pytest.mark.parametrize("far", [1.0, INF], ids=["largest finite", "infinite"])
@pytest.mark.parametrize("dtype", DY, ids=str)
@pytest.mark.parametrize("groups", [None, 3])
def test_a_far_element_changes_no_other(groups, dtype, far, gen, backend):
    """At every position of a vector and of the tail, whatever the neighbours are."""
    a, b = coefficients("safe", "lrelu start", torch.float32)
    if groups:
        a, b = a.repeat(groups, 1), b.repeat(groups, 1)
    count, huge = 69, torch.full((), torch.finfo(dtype).max * far, dtype=dtype)
    x, dy = (torch.randn(count, generator=gen).to(dtype) for _ in range(2))
    want = everything(dy, x, a, b, channel_dim=0)[:2]
    for at in range(0, count, 1 if backend == "native" else 17):  # plain PyTorch has no lanes
        spoilt = x.clone()
        spoilt[at] = huge
        got = everything(dy, spoilt, a, b, channel_dim=0)[:2]
        alone = everything(dy[at].repeat(3), huge.repeat(3), a, b, channel_dim=0)[:2]
        others = torch.arange(count) != at
        for g, w, one in zip(got, want, alone, strict=True):
            assert torch.equal(g[others], w[others]) and torch.equal(g[at], one[0])


def test_a_few_far_elements_in_a_large_tensor(gen, backend):
    """The sums over ordinary elements keep their accuracy beside far ones."""
    a, b = coefficients("safe", "lrelu start", torch.float32)
    x, dy = torch.randn(2, 40_000, generator=gen)
    at = torch.tensor([0, 1, 17, 255, 4095, 4096, 20_001, 39_998, 39_999])
    x[at] = torch.tensor([3e38, -3e38, 1e9, -1e9, 1e20, -1e20, 1e30, 1e5, -1e5])
    dy[at] *= 2.0**-90  # or their sums would drown the others

    ordinary = torch.ones(len(x), dtype=torch.bool)
    ordinary[at] = False
    near = Exact(x[ordinary], a, b)
    far = Exact(x[at], a, b, digits="mpfr")
    got = everything(dy, x, a, b)
    assert_near(got[0][ordinary], near.y, "y")
    assert_near(got[0][at], far.y, "far y")
    near_dx, *near_sums = near.gradients(dy[ordinary])
    far_dx, *far_sums = far.gradients(dy[at])
    assert_near(got[1][ordinary], near_dx, "dx")
    assert_near(got[1][at], far_dx, "far dx")
    for name, g, v, w in zip(("da", "db"), got[2:], near_sums, far_sums, strict=True):
        assert_near(g, v + w, name)


@pytest.mark.no_poison
def test_outputs_larger_than_the_cache(gen):
    """They are stored past it: every element is there, those done one at a time too."""
    x = torch.randn(2**23 + 5000, generator=gen)
    x[::99_991] = 1e30
    dy = torch.randn(x.shape, generator=gen)
    a, b = torch.randn(6, generator=gen), torch.rand(4, generator=gen)

    def run(x, dy):
        x = x.clone().requires_grad_()
        y = rational(x, a, b)
        y.backward(dy)
        return y.detach(), x.grad

    whole = run(x, dy)
    parts = [run(u, v) for u, v in zip(x.split(2**20), dy.split(2**20), strict=True)]
    for got, pieces in zip(whole, zip(*parts, strict=True), strict=True):
        assert torch.equal(got, torch.cat(pieces))


def test_infinity_counts_on_the_side_that_the_bound_reaches():
    """The exact value is -1 +- 1e39, which float32 may return as either infinity."""
    reaching = Near(np.array([-1.0, -1.0, -1e39]), np.array([1e39, 1.0, 1.0]))
    got = torch.full((3,), float("inf"))
    assert excess(got, reaching).tolist() == [0.0, np.inf, np.inf]
    assert excess(-got, reaching).tolist() == [0.0, np.inf, 0.0]


@pytest.mark.parametrize("dtype, huge", [(torch.float32, 1e19), (torch.float64, 1e160)])
def test_huge_coefficients_count_every_element_once(dtype, huge, backend):
    x = torch.tensor([[0.5, 0.5], [2.0, 0.5], [-1.5, 3.0]], dtype=dtype)
    a = torch.tensor([[1.0, 1.0], [huge, 1.0]], dtype=dtype, requires_grad=True)
    b = torch.full((2, 1), 0.5, dtype=dtype)
    rational(x, a, b)[:, 0].sum().backward()
    Q = 1 + (x[:, 0] / 2).abs()
    torch.testing.assert_close(a.grad[0], torch.stack([(1 / Q).sum(), (x[:, 0] / Q).sum()]))
    assert a.grad[1].abs().max() == 0
