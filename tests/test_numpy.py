"""``padenet.numpy``: by the C++ library and without it, against torch and by itself."""

import subprocess
import sys

import numpy as np
import pytest
import torch

import padenet
import padenet.numpy as pn
from padenet.core import native
from padenet.core.forms import FORMS


@pytest.fixture(params=["library", "formula"])
def way(request, monkeypatch):
    if request.param == "formula":
        monkeypatch.setattr(native, "missing", lambda: "not here")
    elif reason := native.missing():
        pytest.skip(f"no native kernel: {reason}")
    return request.param


def problem(form, groups, dtype, shape=(5, 6, 7), dim=1):
    rng = np.random.default_rng(0)
    lead = (groups,) if groups > 1 else ()
    x = rng.standard_normal(shape).astype(dtype)
    a = rng.standard_normal((*lead, 6)).astype(dtype)
    b = 0.3 * rng.standard_normal((*lead, 4 + FORMS[form].constant)).astype(dtype)
    return x, a, b * (0.1 if FORMS[form].has_poles else 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("groups", "dim"), [(1, 1), (3, 1), (7, -1)])
@pytest.mark.parametrize("form", FORMS)
def test_values_and_gradients_are_those_of_torch(form, groups, dim, dtype, way):
    """In float64; float32 within 64 roundings of it."""
    x, a, b = problem(form, groups, dtype, dim=dim)
    dy = np.random.default_rng(1).standard_normal(x.shape).astype(dtype)
    options = {"form": form, "channel_dim": dim}
    got = pn.rational(x, a, b, **options), *pn.rational_vjp(dy, x, a, b, **options)
    tensors = [torch.from_numpy(v).double().requires_grad_() for v in (x, a, b)]
    y = padenet.rational(*tensors, **options)
    want = y, *torch.autograd.grad(y, tensors, torch.from_numpy(dy).double())
    eps = float(np.finfo(dtype).eps)
    for g, w in zip(got, want, strict=True):
        w = w.detach().numpy()
        assert g.shape == w.shape and g.dtype == dtype
        assert np.abs(g - w).max() <= 64 * eps * np.abs(w).max()


def test_sixteen_bits_are_rounded_once(way):
    x, a, b = problem("safe", 1, np.float32)
    half = x.astype(np.float16)
    expected = pn.rational(half.astype(np.float32), a, b).astype(np.float16)
    assert np.array_equal(pn.rational(half, a, b), expected)


def test_any_memory_and_any_number(way):
    x, a, b = problem("safe", 3, np.float64)
    want = pn.rational(x, a, b)
    turned = np.asfortranarray(x)
    assert np.array_equal(pn.rational(turned, a, b), want)
    assert np.array_equal(pn.rational(x[:, ::-1], a[::-1], b[::-1]), want[:, ::-1])
    one = padenet.core.STARTS["tanh"]
    y = pn.rational(0.5, one.a, one.b)
    assert y.shape == () and y == pytest.approx(np.tanh(0.5), abs=one.max_error)
    assert pn.rational([1, 2], one.a, one.b).dtype == np.float64
    assert pn.rational(np.zeros((0, 3)), one.a, one.b).shape == (0, 3)


def test_any_byte_order(way):
    x, a, b = problem("safe", 1, np.float64)
    turned = [v.astype(">f8") for v in (x, a, b)]
    assert np.array_equal(pn.rational(*turned), pn.rational(x, a, b))
    dy = np.ones_like(x)
    for got, want in zip(
        pn.rational_vjp(dy.astype(">f8"), *turned), pn.rational_vjp(dy, x, a, b), strict=True
    ):
        assert np.array_equal(got, want)


def test_right_at_the_largest_x(way):
    start = padenet.core.STARTS["relu"]
    x = np.array([1e300, -1e300, np.inf, 3e-310])
    y = pn.rational(x, start.a, start.b)
    assert np.isfinite(y[:2]).all() and y[0] > 1e299 and np.isinf(y[2])
    dx, da, _ = pn.rational_vjp(np.ones(2), x[:2], start.a, start.b)
    assert np.isfinite(dx).all() and da.shape == (6,)


def test_high_degrees_take_the_formula():
    a, b = np.ones(40) / 40, np.zeros(0)
    assert pn.rational(np.ones(3), a, b) == pytest.approx(np.ones(3))
    assert pn.rational_vjp(np.ones(3), np.ones(3), a, b)[2].shape == (0,)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": np.ones(3, complex)}, "x has dtype complex128, padenet takes float32"),
        ({"a": np.ones(6, complex)}, "a has dtype complex128"),
        ({"form": "sfae"}, "unknown form 'sfae'"),
        ({"a": np.ones((2, 6)), "b": np.ones((2, 4))}, "groups=2 does not divide the 3 channels"),
        ({"a": np.ones((2, 6))}, "coefficients must be a: "),
        ({"a": np.ones((3, 6)), "b": np.ones((3, 4)), "channel_dim": 4}, "is not a dim of x"),
    ],
)
def test_misuse(change, message):
    given = {"x": np.ones((2, 3)), "a": np.ones(6), "b": np.ones(4), **change}
    with pytest.raises((TypeError, ValueError), match=message):
        pn.rational(**given)


def test_dy_of_another_shape():
    with pytest.raises(ValueError, match=r"dy has shape \(\) and x \(2,\)"):
        pn.rational_vjp(1.0, np.ones(2), np.ones(6), np.ones(4))


def test_no_torch_is_needed():
    code = "import sys; sys.modules['torch'] = None; import padenet.numpy as p; "
    code += "from padenet.core import STARTS as S; s = S['gelu']; print(p.rational(1.0, s.a, s.b))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(run.stdout) == pytest.approx(0.8413, abs=0.01)
