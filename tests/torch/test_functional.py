"""``rational`` from the user's side: right, saves little, refuses misuse with a clear word.

Every finite x is in ``test_functional_range.py``, every layout in ``test_functional_layout.py``.
"""

import math
import warnings

import pytest
import torch
from exact import CHUNK, Near, assert_near, exact

from padenet import PAU, RPAU, rational
from padenet.core.forms import FORMS
from padenet.torch import functional

DEGREES = [(0, 0), (3, 0), (0, 3), (5, 4), (4, 5), (7, 6), (12, 12)]
HALVES = [torch.bfloat16, torch.float16]
NAMES = ("y", "dx", "da", "db")


def coefficients(m, n, form, gen, groups=None, dtype=torch.float32):
    lead = () if groups is None else (groups,)
    make = lambda k: torch.randn(*lead, k, generator=gen, dtype=torch.float64).to(dtype)
    return make(m + 1), make(n + (form == "offset"))


def everything(dy, x, a, b, **options):
    """``y, dx, da, db`` through autograd."""
    x, a, b = (t.detach().requires_grad_() for t in (x, a, b))
    y = rational(x, a, b, **options)
    return y.detach(), *torch.autograd.grad(y, (x, a, b), dy)


def smooth(m, n, form, gen, groups, q):
    """float64 inputs far from kinks and poles, where a finite difference means something."""
    options = {"form": form, "q": q}
    a, b = coefficients(m, n, form, gen, groups, torch.float64)
    if form == "free":
        b *= 0.5 / max(n, 1) / b.abs().max().clamp_min(1) if n else 1
    x = torch.full((2, 4), torch.nan, dtype=torch.float64)
    for _ in range(200):
        redo = x.isnan()
        if not redo.any():
            return (x, a, b), options
        x = torch.where(redo, torch.rand(x.shape, generator=gen, dtype=x.dtype) * 3 - 1.5, x)
        # 1 / Q as the value of a unit with numerator 1 tells how far A is from 0
        one = torch.ones_like(a[..., :1])
        slack = 1 / rational(x, one, b, **options) - (0 if form == "free" else q)
        bad = (slack < 0.05) | (x.abs() < 0.05) if b.numel() else x.abs() < 0.05
        x = torch.where(bad, torch.nan, x)
    raise AssertionError("no smooth point found")


@pytest.mark.parametrize("groups", [None, 1, 2, 4])
@pytest.mark.parametrize("m, n", DEGREES)
@pytest.mark.parametrize("form", FORMS)
def test_first_and_second_derivatives(form, m, n, groups, gen, backend):
    q = 0.3 if form in ("safe", "offset") and groups == 2 else 1.0
    inputs, options = smooth(m, n, form, gen, groups, q)
    inputs = [t.detach().requires_grad_() for t in inputs]
    f = lambda x, a, b: rational(x, a, b, **options)
    assert torch.autograd.gradcheck(f, inputs)
    assert torch.autograd.gradgradcheck(f, inputs, fast_mode=True)


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
@pytest.mark.parametrize("groups", [None, 1, 2, 6])
@pytest.mark.parametrize("m, n", DEGREES)
@pytest.mark.parametrize("form", FORMS)
def test_within_the_rounding_bound(form, m, n, groups, dtype, gen, backend):
    """Halves are computed in float32 and rounded once: ``assert_near`` allows just that."""
    a, b = coefficients(m, n, form, gen, groups)
    x = torch.randn(3, 6, 119, generator=gen).mul(1.5).to(dtype)
    dy = torch.randn(x.shape, generator=gen).to(dtype)
    options = {"form": form, "q": 0.1 if form in ("safe", "offset") and groups == 2 else 1.0}
    got, want = everything(dy, x, a, b, **options), exact(dy, x, a, b, **options)
    for name, g, w in zip(NAMES, got, want, strict=True):
        assert_near(g, w, name)


@pytest.mark.parametrize("form", FORMS)
def test_float64_within_the_rounding_bound(form, gen, backend):
    a, b = coefficients(5, 4, form, gen, 2, torch.float64)
    x, dy = torch.randn(2, 3, 4, 7, generator=gen, dtype=torch.float64)
    options = {"form": form, "channel_dim": -2}
    got = everything(dy, x, a, b, **options)
    for name, g, w in zip(NAMES, got, exact(dy, x, a, b, digits="mpfr", **options), strict=True):
        assert_near(g, w, name)


def test_q_reaches_the_kernels_as_a_float(gen, backend, monkeypatch):
    """A kernel that was compiled for a whole number would keep it."""
    a, b = coefficients(5, 4, "safe", gen)
    x = torch.randn(40, generator=gen)
    seen = []
    forward = functional.apply
    monkeypatch.setattr(functional, "apply", lambda *args: seen.append(args[4].q) or forward(*args))
    got = [rational(x, a, b, q=q) for q in (1, 0.5, 1.0)]
    assert list(map(type, seen)) == [float] * 3
    assert torch.equal(got[0], got[2]) and not torch.equal(got[0], got[1])


@pytest.mark.parametrize("coefficient_dtype", [torch.float64, torch.float32, *HALVES])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, *HALVES])
def test_mixed_dtypes(dtype, coefficient_dtype, gen, backend):
    """The output has the dtype of x, and a gradient that of its coefficient."""
    a, b = coefficients(5, 4, "safe", gen, None, coefficient_dtype)
    x, dy = (torch.randn(40, generator=gen, dtype=torch.float64).to(dtype) for _ in range(2))
    got = everything(dy, x, a, b)
    want = exact(dy, x, a, b, digits="mpfr" if dtype == torch.float64 else "float64")
    assert [t.dtype for t in got] == [dtype, dtype, coefficient_dtype, coefficient_dtype]
    for name, g, w in zip(NAMES, got, want, strict=True):
        assert_near(g, w, name)


@pytest.mark.parametrize("n_elements", [1, 2, 15, 16, 17, 255, 256, 257, 4096, 4097, 20000])
@pytest.mark.parametrize("groups", [None, 5])
def test_sums_of_many_elements(groups, n_elements, gen, backend):
    a, b = coefficients(5, 4, "safe", gen, groups)
    x, dy = torch.randn(2, n_elements, 5, generator=gen)
    got, want = everything(dy, x, a, b), exact(dy, x, a, b)
    for name, g, w in zip(NAMES, got, want, strict=True):
        assert_near(g, w, name)


@pytest.mark.parametrize("groups", [None, 2])
@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
def test_a_million_equal_elements(dtype, groups, backend):
    """The worst sum: every rounding of a running total errs to the same side."""
    a, b = (torch.tensor(c) for c in ([0.1, 0.7, -0.3], [0.4, 0.6]))
    if groups:
        a, b = a.repeat(groups, 1), b.repeat(groups, 1)
    few, many = (torch.full((n,), 0.7, dtype=dtype) for n in (2, 1 << 20))
    got = everything(torch.ones(1, dtype=dtype).expand_as(many), many, a, b, channel_dim=0)
    of_few = exact(torch.ones_like(few), few, a, b, channel_dim=0)
    chunk = CHUNK * torch.finfo(torch.float32).eps / 2
    for name, g, w in zip(("da", "db"), got[2:], of_few[2:], strict=True):
        assert_near(g, Near(w.v * 2.0**19, (w.e + chunk * abs(w.v)) * 2.0**19), name)


def test_sign_of_the_terms_of_abs_terms(backend):
    """Q = 1 + |2 x| + |-3 x^2| at x = -1: 1, 2, 3 and F = 1/6."""
    dy, x, a, b = (torch.tensor(v) for v in ([1.0], [-1.0], [1.0], [2.0, -3.0]))
    y, dx, _, db = everything(dy, x, a, b, form="abs_terms")
    torch.testing.assert_close(y, torch.tensor([1 / 6]))
    torch.testing.assert_close(dx, torch.tensor([8 / 36]))
    torch.testing.assert_close(db, torch.tensor([-1 / 36, 1 / 36]))


def test_gradients_that_are_not_asked_for(gen, backend):
    a, b = coefficients(5, 4, "safe", gen)
    x, dy = torch.randn(2, 100, generator=gen)
    everyone = everything(dy, x, a, b)[1:]
    for i, g in enumerate(everyone):
        inputs = [t.detach().requires_grad_(i == k) for k, t in enumerate((x, a, b))]
        (alone,) = torch.autograd.grad(rational(*inputs), inputs[i], dy)
        assert torch.equal(alone, g)
    assert not rational(x, a, b).requires_grad


def test_saves_only_its_inputs(gen, backend):
    a, b = (t.requires_grad_() for t in coefficients(5, 4, "safe", gen))
    x = torch.randn(64, generator=gen, requires_grad=True)
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        y = rational(x, a, b)
    assert sorted(t.data_ptr() for t in saved) == sorted(t.data_ptr() for t in (x, a, b))
    y.sum().backward()


def test_forward_and_backward_leave_the_inputs_alone(gen, backend):
    a, b = coefficients(5, 4, "safe", gen, 2)
    inputs = torch.randn(3, 4, 50, generator=gen), torch.randn(3, 4, 50, generator=gen), a, b
    before = [t.clone() for t in inputs]
    everything(*inputs)
    assert all(torch.equal(t, u) for t, u in zip(inputs, before, strict=True))


X, A, B = torch.ones(2, 6, 3), torch.ones(6), torch.ones(4)


@pytest.mark.parametrize(
    "args, options, error, says",
    [
        ((X.int(), A, B), {}, TypeError, r"x has dtype torch.int32, .* Try x.float\(\)"),
        ((X.to(torch.complex64), A, B), {}, TypeError, r"x has dtype torch.complex64, .* Try"),
        ((X.bool(), A, B), {}, TypeError, r"x has dtype torch.bool, .* Try"),
        (([1.0], A, B), {}, TypeError, "got x: list, a: Tensor.* Try torch.as_tensor"),
        ((X, A.tolist(), B), {}, TypeError, "got x: Tensor, a: list, b: Tensor"),
        ((X, A, None), {}, TypeError, "b: NoneType. Try torch.as_tensor"),
        ((X, A.double(), B), {}, TypeError, r"float64 and torch.float32. Convert .* a.float\(\)"),
        ((X, A.int(), B.int()), {}, TypeError, "torch.int32 and torch.int32. Convert"),
        ((X, A.to("meta"), B), {}, ValueError, r"x is on cpu but .* meta and cpu. Move"),
        ((X.to("meta"), A, B), {}, ValueError, r"x is on meta but .* cpu and cpu. Move"),
        (
            (X, A, B),
            {"form": "sfae"},
            ValueError,
            r"unknown form 'sfae'. Did you mean 'safe'\? Known: safe",
        ),
        ((X, A, B), {"q": 0.0}, ValueError, r"q=0.0 must be in \[1e-06, 1\]"),
        ((X, A, B), {"q": 1.5}, ValueError, r"q=1.5 must be in \[1e-06, 1\]"),
        ((X, A, B), {"q": None}, TypeError, "q=None must be a number"),
        ((X, A, B), {"form": ["safe"]}, ValueError, r"unknown form \['safe'\]"),
        ((X, A, B), {"channel_dim": 1.0}, TypeError, "channel_dim=1.0 must be an int"),
        ((X.to(torch.float8_e4m3fn), A, B), {}, TypeError, "takes float32, bfloat16, float16"),
        ((X, A, B), {"q": float("nan")}, ValueError, "q=nan must be in"),
        ((X, A, B), {"q": 0.1, "form": "free"}, ValueError, r"q=0.1 .*'free', .* Leave q out"),
        ((X, A, B), {"q": 0.1, "form": "abs_terms"}, ValueError, "q=0.1 .*'abs_terms'"),
        ((X, A[:0], B), {}, ValueError, r"a: \(0,\) and b: \(4,\). For degrees \(5, 4\) pass 6"),
        ((X, A, B[:0]), {"form": "offset"}, ValueError, r"b: \(0,\). .* pass 6 .* 5 denominator"),
        ((X, A, B[None]), {}, ValueError, r"got a: \(6,\) and b: \(1, 4\)"),
        ((X, A[None, None], B[None, None]), {}, ValueError, r"got a: \(1, 1, 6\)"),
        ((X, A.expand(2, 6), B.expand(3, 4)), {}, ValueError, r"a: \(2, 6\) and b: \(3, 4\)"),
        ((X, A.expand(0, 6), B.expand(0, 4)), {}, ValueError, r"a: \(0, 6\)"),
        ((X, A.expand(4, 6), B.expand(4, 4)), {}, ValueError, "groups=4 does not divide the 6"),
        (
            (X, A.expand(2, 6), B.expand(2, 4)),
            {"channel_dim": 3},
            ValueError,
            r"channel_dim=3 is not a dim of x, .* \(2, 6, 3\). .* channel_dim=-1",
        ),
        ((X[0, 0, 0], A[None], B[None]), {}, ValueError, r"channel_dim=1 is not .* shape \(\)"),
    ],
)
def test_errors_name_the_thing_the_value_and_the_fix(args, options, error, says):
    with pytest.raises(error, match=says):
        rational(*args, **options)


@pytest.mark.parametrize("unit", [PAU, RPAU])
def test_nested_tensors(unit):
    """On their values, forward and backward; other kinds and groups are refused."""
    parts = [torch.randn(n, 4) for n in (2, 3)]
    x = torch.nested.nested_tensor(parts, layout=torch.jagged, requires_grad=True)
    layer = unit().eval()
    y = layer(x)
    torch.testing.assert_close(y.values(), layer(torch.cat(parts)))
    y.values().sum().backward()
    flat = torch.cat(parts).requires_grad_()
    expected = torch.autograd.grad(layer(flat).sum(), [flat, layer.a, layer.b])
    for grad, want in zip((x.grad.values(), layer.a.grad, layer.b.grad), expected, strict=True):
        torch.testing.assert_close(grad, want)
    assert layer.train()(x).shape == x.shape
    with pytest.raises(TypeError, match=r"groups=2 cannot share out\. Apply the unit to x.values"):
        unit(groups=2)(x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, of the prototype
        strided = torch.nested.nested_tensor(parts)
    with pytest.raises(TypeError, match=r"layout=torch\.jagged"):
        layer(strided)


@pytest.mark.parametrize("form", ["safe", "offset"])
def test_a_constant_keeps_nan(form):
    x = torch.tensor([math.nan, 1.0, -math.inf, 0.0] * 9)
    b = torch.full((int(form == "offset"),), 0.5)
    y = rational(x, torch.tensor([3.0]), b, form=form)
    want = 3.0 / (1 + 0.5 * (form == "offset"))
    assert torch.equal(y.isnan(), x.isnan()) and (y[~y.isnan()] == want).all()
