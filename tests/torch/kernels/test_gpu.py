"""The GPU kernels: on the GPU where there is one, else in Triton's interpreter.

A choice of what the other files test on every backend; on a GPU those run there too. Each case is
there for a path of its own through the kernels: FLAT, RUNS and LANES tiles, one or two elements a
word, tails, far elements, noise.
"""

import numpy as np
import pytest
import torch
from backends import OnGPU, running_on
from exact import Exact, assert_near, exact
from interpreter import repeat_less

from padenet import rational
from padenet.core.forms import FORMS, Spec
from padenet.torch import functional, reference
from padenet.torch.kernels import gpu
from padenet.torch.kernels.gpu import plan

pytest.importorskip("triton")
repeat_less()
F32, BF16, F16 = torch.float32, torch.bfloat16, torch.float16
NAMES = ("y", "dx", "da", "db")


@pytest.fixture(autouse=True)
def on_gpu():
    with running_on("gpu"):
        yield


def everything(dy, x, a, b, **options):
    x, a, b = (t.detach().requires_grad_() for t in (x, a, b))
    y = rational(x, a, b, **options)
    return y.detach(), *torch.autograd.grad(y, (x, a, b), dy)


def coefficients(m, n, form, gen, groups=None):
    lead = () if groups is None else (groups,)
    make = lambda k: torch.randn(*lead, k, generator=gen)
    return make(m + 1), make(n + (form == "offset"))


def check(x, dy, form, m, n, gen, groups=None, **options):
    a, b = coefficients(m, n, form, gen, groups)
    got = everything(dy, x, a, b, form=form, **options)
    for name, g, w in zip(NAMES, got, exact(dy, x, a, b, form=form, **options), strict=True):
        assert_near(g, w, name)
    assert got[0].stride() == torch.empty_like(x).stride()


DEGREES = {(5, 4): F32, (0, 0): BF16, (3, 0): F16, (0, 3): F32, (4, 5): BF16}


@pytest.mark.parametrize("m, n, dtype", [*((*d, t) for d, t in DEGREES.items()), (5, 4, F16)])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_and_degree(form, m, n, dtype, gen):
    x = torch.randn(1301, generator=gen).mul(1.5).to(dtype)
    check(x, torch.randn(1301, generator=gen).to(dtype), form, m, n, gen)


SHAPES = {
    "one unit, aligned": ((4, 1024), None),
    "one unit, several programs": ((5000,), None),
    "runs of 96": ((21, 192), 2),
    "runs of 196, many tiles across": ((2, 3, 14, 14), 3),
    "runs of 33": ((6, 66), 2),
    "lanes, a unit a channel": ((70, 64), 64),
    "lanes, odd": ((40, 21), 7),
    "lanes, wider than a tile": ((3, 140), 140),
}


@pytest.mark.parametrize("dtype", [F32, BF16], ids=str)
@pytest.mark.parametrize("shape, groups", SHAPES.values(), ids=list(SHAPES))
def test_every_layout_of_units(shape, groups, dtype, gen, monkeypatch):
    monkeypatch.setattr(plan, "_SMALL", 4500)  # or one program would sum all
    x, dy = torch.randn(2, *shape, generator=gen).to(dtype)
    check(x, dy, "safe", 5, 4, gen, groups, channel_dim=1 if groups else 0)


@pytest.mark.parametrize("shape, groups", [((90, 192), 2), ((300, 64), 64)], ids=["runs", "lanes"])
def test_more_programs_than_fit_abreast(shape, groups, gen, monkeypatch):
    uncached = plan.plan_for.__wrapped__
    monkeypatch.setattr(plan, "_MOST_ABREAST", 1)
    monkeypatch.setattr(gpu, "plan_for", uncached)
    x, dy = torch.randn(2, *shape, generator=gen).to(BF16)
    assert uncached("forward", x.device, BF16, x.shape, (), groups, 1, False).grid[2] > 1
    check(x, dy, "safe", 5, 4, gen, groups)


@pytest.mark.parametrize(
    "shape, groups",
    [((30_001,), None), ((90, 192), 2), ((300, 64), 64)],
    ids=["flat", "runs", "lanes"],
)
def test_waves_of_programs(shape, groups, gen, monkeypatch):
    """Of programs of several lengths."""
    uncached = plan.plan_for.__wrapped__
    monkeypatch.setattr(plan, "_SMALL", 100)
    monkeypatch.setattr(plan, "_at_once", lambda registers, device: 4)
    monkeypatch.setattr(plan, "_waves", lambda length, most, *case: (3, 2))
    monkeypatch.setattr(gpu, "plan_for", uncached)
    x, dy = torch.randn(2, *shape, generator=gen).to(BF16)
    assert uncached("backward", x.device, BF16, x.shape, (), groups or 1, 1, False).grid[2] > 1
    check(x, dy, "safe", 5, 4, gen, groups, channel_dim=1 if groups else 0)


@pytest.mark.parametrize("dtype", [F32, F16], ids=str)
@pytest.mark.parametrize("groups", [None, 8])
@pytest.mark.parametrize("kind", ["channels_last", "permuted", "stepped", "expanded", "unaligned"])
def test_any_strides(kind, groups, dtype, gen):
    x, dy = torch.randn(2, 3, 8, 6, 5, generator=gen).to(dtype)
    if kind == "channels_last":
        x = x.contiguous(memory_format=torch.channels_last)
    elif kind == "permuted":
        x = x.permute(2, 0, 3, 1).contiguous().permute(1, 3, 0, 2)
    elif kind == "stepped":
        x = x.repeat_interleave(2, 3)[..., ::2]
    elif kind == "expanded":
        dy = dy[:1, :1, :1, :1].expand(x.shape)
    else:
        x = torch.cat([x.new_zeros(1), x.flatten()])[1:].view(x.shape)
    check(x, dy, "safe", 5, 4, gen, groups)


@pytest.mark.parametrize("groups", [None, 5])
def test_sixteen_bits_within_a_word(groups, gen, monkeypatch):
    """A tensor that begins there is not read as words of 32 bits: a GPU refuses such loads."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x, dy = (torch.randn(8, 3, 5, 5, generator=gen).to(device, BF16)[i] for i in (1, 3))
    a, b = coefficients(5, 4, "safe", gen, groups)
    starts = []
    launch = gpu._launch
    monkeypatch.setattr(
        gpu,
        "_launch",
        lambda plan, tensors, *rest: (
            starts.extend(t.data_ptr() & 3 for t in tensors) or launch(plan, tensors, *rest)
        ),
    )
    spec = Spec("safe", 1.0, 1)
    on_device = [c.to(device) for c in (a, b)]
    y = gpu.forward(x, *on_device, None, spec)
    got = y, *gpu.backward(dy, x, *on_device, None, spec)
    assert x.data_ptr() & 3 and dy.data_ptr() & 3 and starts and not any(starts)
    x, dy = x.cpu(), dy.cpu()
    for name, g, w in zip(NAMES, got, exact(dy, x, a, b), strict=True):
        assert_near(g.cpu(), w, name)


@pytest.mark.parametrize("dtype", [BF16, F16, torch.float64], ids=str)
def test_coefficients_of_any_dtype(dtype, gen):
    x, dy = torch.randn(2, 200, generator=gen)
    a, b = (c.to(dtype) for c in coefficients(5, 4, "safe", gen))
    got = everything(dy, x, a, b)
    assert [t.dtype for t in got] == [F32, F32, dtype, dtype]
    for name, g, w in zip(NAMES, got, exact(dy, x, a, b), strict=True):
        assert_near(g, w, name)


@pytest.mark.parametrize("shape, groups", [((0, 4), None), ((0, 4), 2), ((), None), ((1, 1), 1)])
def test_empty_and_tiny(shape, groups, gen):
    x, dy = torch.randn(2, *shape, generator=gen)
    check(x, dy, "safe", 5, 4, gen, groups)


UNITS = {
    "lrelu": ([0.0336, 0.505, 1.6534, 2.0099, 0.9319, 0.1524], [0.0, 3.9801, 0.0, 0.3018]),
    "a_5 = b_4 = 0": ([0.3, 1.0, -0.2, 0.1, 0.4, 0.0], [0.2, -0.3, 0.5, 0.0]),
    "identity": ([0.0, 1.0, 0.0, 0.0, 0.0, 0.0], [0.0] * 4),
    "large": ([1e8, -2e8, 3e8, 1e8, -1e8, 2e8], [1e8, 2e8, -1e8, 3e8]),
    "(7, 6)": ([0.1, -0.4, 0.3, 0.2, -0.1, 0.5, 0.2, 0.1], [0.3, 0.1, -0.2, 0.4, 0.1, 0.2]),
}


@pytest.mark.parametrize(
    "form, unit, dtype",
    [
        *(("safe", u, F32) for u in UNITS),
        *((f, "lrelu", F32) for f in FORMS if f != "safe"),
        ("safe", "lrelu", BF16),
    ],
)
def test_right_at_every_x(form, unit, dtype):
    a, b = UNITS[unit]
    a, b = torch.tensor(a), torch.tensor([0.3, *b] if form == "offset" else b)
    values = [0.0, 1e-40, 1e-20, 0.7, 3.0, 40.0, 5e3, 3e7, 2e12, 7e19, 1e30, 3.3e38, float("inf")]
    x = torch.tensor([values + [-v for v in values]]).to(dtype)
    a, b = (c.expand(x.shape[1], -1) for c in (a, b))
    judge = Exact(x, a, b, form=form, digits="mpfr")
    dy = torch.full_like(x, 2.0**-30)
    got = everything(dy, x, a, b, form=form)
    for name, g, w in zip(NAMES, got, (judge.y, *judge.gradients(dy)), strict=True):
        assert_near(g, w, name)


@pytest.mark.parametrize("dtype", [F32, BF16])
@pytest.mark.parametrize("q", [1.0, 0.25])
@pytest.mark.parametrize("form, constant", [("safe", []), ("offset", [0.0]), ("offset", [-0.0])])
def test_the_sign_of_the_smallest_numbers(form, constant, q, dtype):
    """1 / (q + |2 x|): its slope is -2 sign(x) / q^2 near 0, and 0 at 0."""
    small = [0.0, 1e-40, 2e-39, 1.2e-38, 1e-30, 1e-12]
    x = torch.tensor([*small, *(-v for v in small)]).to(dtype)
    a, b = torch.tensor([1.0]), torch.tensor([*constant, 2.0])
    _, dx, _, _ = everything(torch.ones_like(x), x, a, b, form=form, q=q)
    assert torch.equal(dx, -2 * x.sign() / q**2)


def test_no_slope_of_a_denominator_where_it_vanishes():
    x = torch.tensor([1.0, -1.0, 0.0, -0.0])
    a, b = torch.tensor([1.0, 1.0]), torch.tensor([1.0, 0.0, -1.0])  # x - x^3
    _, dx, _, db = everything(torch.ones_like(x), x, a, b)
    assert torch.equal(dx, torch.ones(4)) and torch.equal(db, torch.zeros(3))


@pytest.mark.parametrize("dtype, groups", [(F32, 3), (BF16, None)])
def test_a_far_element_changes_no_other(dtype, groups, gen):
    a, b = (torch.tensor(c) for c in UNITS["lrelu"])
    if groups:
        a, b = a.repeat(groups, 1), b.repeat(groups, 1)
    x, dy = torch.randn(2, 5, 69, generator=gen).to(dtype)
    want = everything(dy, x, a, b)
    spoilt = x.clone()
    spoilt[4, 67] = torch.finfo(dtype).max
    got = everything(dy, spoilt, a, b)
    others = spoilt == x
    for g, w in zip(got[:2], want[:2], strict=True):
        assert torch.equal(g[others], w[others]) and g.isfinite().all()


def test_nan_stays_where_it_is(gen):
    a, b = (torch.tensor(c) for c in UNITS["lrelu"])
    x = torch.randn(999, generator=gen)
    want = everything(torch.ones_like(x), x, a, b)
    x[[5, 500]] = float("nan")
    got = everything(torch.ones_like(x), x, a, b)
    for g, w in zip(got[:2], want[:2], strict=True):
        assert torch.equal(g.isnan(), x.isnan()) and torch.equal(g[~x.isnan()], w[~x.isnan()])
    assert all(g.isnan().all() for g in got[2:])


@pytest.mark.parametrize("m, n", [(5, 4), (7, 6)])
@pytest.mark.parametrize("layout", ["flat", "runs", "lanes", "channels_last", "transposed"])
def test_noise_is_that_of_the_cpu(layout, m, n, gen):
    """The reference draws it in int64 arithmetic from ``padenet.core.noise``."""
    x, groups = torch.randn(4, 8, 5, 4, generator=gen), {"runs": 2, "lanes": 8}.get(layout)
    if layout == "channels_last":
        x, groups = x.contiguous(memory_format=torch.channels_last), 8
    elif layout == "transposed":
        x = x.view(32, 20).t()
    a, b = coefficients(m, n, "safe", gen, groups)
    key, spec = torch.tensor(0x1234_5678_9ABC_DEF), Spec(alpha=0.3)
    dy = torch.randn(x.shape, generator=gen)
    got = OnGPU.forward(x, a, b, key, spec), *OnGPU.backward(dy, x, a, b, key, spec)
    wide = [t.double() for t in (dy, x, a, b)]
    want = (
        reference.forward(*wide[1:], key, spec),
        *reference.backward(*wide, key, spec),
    )
    for g, w in zip(got, want, strict=True):
        torch.testing.assert_close(g.double(), w, rtol=1e-4, atol=1e-4 * w.abs().mean().item())


def test_a_key_on_the_device(gen):
    x, (a, b) = torch.randn(100, generator=gen), coefficients(5, 4, "safe", gen)
    key, spec = torch.tensor(987_654_321_987), Spec(alpha=0.3)
    on_device = OnGPU.forward(x, a, b, key.cuda() if torch.cuda.is_available() else key, spec)
    assert torch.equal(on_device, OnGPU.forward(x, a, b, key, spec))


def test_the_same_bits_every_time(gen):
    x, dy = torch.randn(2, 40, 64, generator=gen)
    a, b = coefficients(5, 4, "safe", gen, 4)
    assert all(map(torch.equal, everything(dy, x, a, b), everything(dy, x, a, b)))


@pytest.mark.no_poison
@pytest.mark.skipif(torch.cuda.is_available(), reason="test_cuda.py compiles for the GPU")
def test_compiled_graph_calls_the_kernels(gen, monkeypatch):
    from padenet.torch.kernels import gpu

    monkeypatch.setattr(gpu, "refuses", lambda x, a, b: gpu.missing())
    ran = []
    backward = gpu.backward
    monkeypatch.setattr(gpu, "backward", lambda *args: ran.append(1) or backward(*args))
    a, b = (c.requires_grad_() for c in coefficients(5, 4, "safe", gen, 4))
    x = torch.randn(3, 8, 5, generator=gen, requires_grad=True)
    dy = torch.randn(x.shape, generator=gen)

    def chain(x):
        return functional.rational(2 * x, a, b).tanh()

    with np.errstate(all="ignore"):
        y = torch.compile(chain, fullgraph=True, backend="aot_eager")(x)
        got = y.detach(), *torch.autograd.grad(y, (x, a, b), dy)
    y = reference.forward(2 * x, a, b, None, Spec()).tanh()
    want = y.detach(), *torch.autograd.grad(y, (x, a, b), dy)
    assert ran
    for g, w in zip(got, want, strict=True):
        torch.testing.assert_close(g, w, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(torch.cuda.is_available(), reason="nothing is interpreted on the GPU")
@pytest.mark.parametrize("groups", [None, 4])
def test_the_interpreter_computes_the_same_when_it_repeats_less(groups, gen, monkeypatch):
    """``interpreter.py`` changes nothing else, and a launch leaves the language as it was."""
    from triton import language
    from triton.language import core
    from triton.runtime import interpreter

    x, dy = torch.randn(2, 6, 20, generator=gen)
    x[3, 7] = 3e38
    a, b = coefficients(5, 4, "safe", gen, groups)
    load = language.load
    got = everything(dy, x, a, b)
    assert language.load is load
    assert language.core.is_builtin(load)
    for place, name in [
        (interpreter, "_patch_lang"),
        (interpreter, "_get_np_dtype"),
        (core.block_type, "__init__"),
        (core.tensor, "__init__"),
    ]:
        patched = getattr(place, name)
        monkeypatch.setattr(place, name, getattr(patched, "__wrapped__", patched))
    assert all(map(torch.equal, got, everything(dy, x, a, b)))
