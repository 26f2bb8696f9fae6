"""``padenet.jax.rational`` under JAX's transformations; derivatives against torch in float64."""

import subprocess
import sys

import numpy as np
import pytest
import torch

import padenet
import padenet.numpy
from padenet.core import STARTS, native
from padenet.core.forms import FORMS

jax = pytest.importorskip("jax", reason="jax is not installed")

import jax.numpy as jnp  # noqa: E402

import padenet.jax as pj  # noqa: E402
from padenet.jax import native as calls  # noqa: E402
from padenet.jax import primitives  # noqa: E402


@pytest.fixture
def x64():
    with jax.enable_x64(True):
        yield


def problem(form, groups=1, shape=(5, 6, 7), seed=0):
    rng = np.random.default_rng(seed)
    lead = (groups,) if groups > 1 else ()
    x = rng.standard_normal(shape)
    a = rng.standard_normal((*lead, 6))
    b = 0.3 * rng.standard_normal((*lead, 4 + FORMS[form].constant))
    return x, a, b * (0.1 if FORMS[form].has_poles else 1)


def close(got, want, roundings=64, eps=2.0**-52):
    got, want = (np.asarray(v, float) for v in (got, want))
    assert got.shape == want.shape
    assert np.abs(got - want).max(initial=0) <= roundings * eps * np.abs(want).max(initial=0)


def of_torch(x, a, b, dy, **options):
    tensors = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (x, a, b)]
    y = padenet.rational(*tensors, **options)
    grads = torch.autograd.grad(y, tensors, torch.tensor(dy, dtype=torch.float64))
    return [t.detach().numpy() for t in (y, *grads)]


@pytest.mark.parametrize(("groups", "dim"), [(1, 1), (3, 1), (7, -1)])
@pytest.mark.parametrize("form", FORMS)
def test_values_and_gradients_are_those_of_torch(form, groups, dim, x64):
    """64 roundings: some 20 operations, and sums of 210 terms."""
    x, a, b = map(jnp.asarray, problem(form, groups))
    dy = jnp.asarray(np.random.default_rng(1).standard_normal(x.shape))
    options = {"form": form, "channel_dim": dim}
    want = of_torch(x, a, b, dy, **options)

    def both(x, a, b):
        y, pull = jax.vjp(lambda *v: pj.rational(*v, **options), x, a, b)
        return y, *pull(dy)

    for call in (both, jax.jit(both)):
        for g, w in zip(call(x, a, b), want, strict=True):
            close(g, w)
    along = tuple(jnp.cos(v) for v in (x, a, b))
    _, change = jax.jvp(lambda *v: pj.rational(*v, **options), (x, a, b), along)
    pulled = sum(float((g * v).sum()) for g, v in zip(want[1:], along, strict=True))
    assert float((dy * change).sum()) == pytest.approx(pulled, rel=1e-9)


def test_second_derivatives_are_those_of_torch(x64):
    """Forward over reverse, and reverse over reverse; some hundred roundings more than in torch."""
    x, a, b = map(jnp.asarray, problem("safe", shape=(3,)))
    f = lambda x, a, b: (pj.rational(x, a, b) ** 2).sum()
    tensors = tuple(torch.tensor(np.asarray(v)) for v in (x, a, b))
    want = torch.autograd.functional.hessian(
        lambda x, a, b: padenet.rational(x, a, b).square().sum(), tensors
    )
    each = (0, 1, 2)
    for way in (jax.hessian(f, each), jax.jacrev(jax.jacrev(jax.checkpoint(f), each), each)):
        for row, wanted in zip(way(x, a, b), want, strict=True):
            for got, w in zip(row, wanted, strict=True):
                close(got, w.numpy(), eps=1e-12)


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize(
    "axes", [(0, None, None), (1, None, None), (None, 0, 0), (0, 0, 0), (2, 0, None)]
)
def test_vmap_is_a_loop(axes, groups, x64):
    shape = [4, 6, 5]
    x, a, b = map(jnp.asarray, problem("safe", groups, shape[1:]))
    size, rng = 4, np.random.default_rng(2)
    draw = lambda v, d: (
        v
        if d is None
        else jnp.stack([v * (1 + 0.1 * rng.standard_normal()) for _ in range(size)], d)
    )
    given = [draw(v, d) for v, d in zip((x, a, b), axes, strict=True)]
    options = {"channel_dim": 0}
    f = lambda x, a, b: pj.rational(x, a, b, **options)
    grad = jax.grad(lambda *v: (f(*v) ** 2).sum(), (0, 1, 2))
    push = lambda *v: jax.jvp(f, v, v)[1]
    each = [
        [v if d is None else jnp.take(v, i, d) for v, d in zip(given, axes, strict=True)]
        for i in range(size)
    ]
    for call in (f, grad, push):
        got = jax.tree.leaves(jax.jit(jax.vmap(call, axes))(*given))
        want = [jax.tree.leaves(call(*v)) for v in each]
        for i, g in enumerate(got):
            close(g, np.stack([w[i] for w in want]), 1024)


def test_vmap_of_noise_is_a_loop():
    x, a, b = (jnp.asarray(v, jnp.float32) for v in problem("safe", shape=(3, 8)))
    keys = jax.random.split(jax.random.key(0), 3)
    f = lambda x, key: pj.randomized(x, a, b, key, alpha=0.1)
    want = np.stack([f(v, k) for v, k in zip(x, keys, strict=True)])
    close(jax.vmap(f)(x, keys), want, eps=2.0**-23)
    assert len(np.unique(f(jnp.zeros(100) + 1, keys[0]))) > 90


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_rounded_once(dtype):
    x, a, b = (jnp.asarray(v, jnp.float32) for v in problem("safe"))
    x = x.astype(dtype)
    y, dx = pj.rational(x, a, b), jax.grad(lambda x: pj.rational(x, a, b).sum())(x)
    assert y.dtype == dx.dtype == x.dtype
    wide = pj.rational(x.astype(jnp.float32), a, b).astype(dtype)
    assert (y == wide).all()
    grads = jax.grad(lambda a, b: pj.rational(x, a, b).astype(jnp.float32).sum(), (0, 1))(a, b)
    assert all(g.dtype == jnp.float32 for g in grads)


def test_scan_and_far_numbers():
    start = STARTS["relu"]
    a, b = jnp.asarray(start.a, jnp.float32), jnp.asarray(start.b, jnp.float32)
    x = jnp.array([1e30, -3e38, jnp.inf, 2.0, jnp.nan], jnp.float32)
    want = padenet.numpy.rational(np.asarray(x), a, b)
    got = jax.lax.scan(lambda c, x: (c, pj.rational(x, a, b)), 0, x)[1]
    assert np.array_equal(got, want, equal_nan=True)
    plain = jax.jit(primitives.plain_forward, static_argnames="spec")(
        x, a, b, spec=padenet.core.Spec()
    )
    assert np.allclose(plain, want, rtol=1e-5, equal_nan=True)
    # With noise too, backward is the derivative of the noisy coefficients.
    f = lambda a: pj.randomized(x[3:4], a, b, 5, alpha=0.1).sum()
    assert np.isfinite(jax.grad(f)(a)).all()


def test_memory_kept_for_backward():
    """x, a and b."""
    x = jnp.ones((64, 64))
    a, b = jnp.ones(6), jnp.ones(4)
    _, pull = jax.vjp(lambda *v: pj.rational(*v), x, a, b)
    kept = [v for v in jax.tree.leaves(pull) if hasattr(v, "shape")]
    assert sum(v.size for v in kept) == x.size + a.size + b.size


def test_export_with_a_symbolic_batch():
    """The formula in operations of StableHLO, for any device, without this package."""
    pytest.importorskip("flatbuffers", reason="flatbuffers is not installed")
    from jax import export

    start = STARTS["gelu"]
    a, b = jnp.asarray(start.a, jnp.float32), jnp.asarray(start.b, jnp.float32)
    (n,) = export.symbolic_shape("n")
    shape = jax.ShapeDtypeStruct((n, 4), jnp.float32)
    made = export.export(jax.jit(lambda x: pj.rational(x, a, b)), platforms=("cpu", "cuda"))(shape)
    assert "padenet" not in made.mlir_module().split("loc(")[0]
    loaded = export.deserialize(made.serialize())
    x = jnp.linspace(-3, 3, 12).reshape(3, 4)
    close(loaded.call(x), pj.rational(x, a, b), 8, 2.0**-23)
    grad = jax.jit(jax.grad(lambda a, x: pj.rational(x, a, b).sum()))
    made = export.export(grad)(jax.ShapeDtypeStruct((6,), jnp.float32), shape)
    close(made.call(a, x), grad(a, x), 64, 2.0**-23)


def test_it_is_the_kernel():
    if reason := native.missing():
        pytest.skip(f"no native kernel: {reason}")
    assert calls.missing() is None
    assert padenet.backends()["jax"].startswith("C++ by custom call on the CPU")
    x, a, b = (jnp.asarray(v, jnp.float32) for v in problem("safe"))
    text = jax.jit(jax.grad(lambda x: pj.rational(x, a, b).sum())).lower(x).as_text()
    assert "padenet_xla_backward" in text
    want = padenet.numpy.rational(np.asarray(x), np.asarray(a), np.asarray(b))
    assert np.array_equal(pj.rational(x, a, b), want)


def test_without_the_kernel_it_says_so(monkeypatch):
    monkeypatch.setattr(calls, "missing", lambda: "not here")
    calls.warn_once.cache_clear()
    x, a, b = (jnp.asarray(v, jnp.float32) for v in problem("safe", shape=(3,)))
    with pytest.warns(RuntimeWarning, match="padenet runs on plain JAX, .* not here"):
        y = jax.jit(lambda x: pj.rational(x, a, b) + 0)(x)
    want = padenet.numpy.rational(*(np.asarray(v) for v in (x, a, b)))
    assert np.allclose(y, want, rtol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": np.ones((2, 3), complex)}, "x has dtype complex64, padenet takes float32"),
        ({"x": np.ones((2, 3), np.int32)}, "x has dtype int32"),
        ({"form": "sfae"}, "unknown form 'sfae'"),
        ({"a": np.ones((2, 6)), "b": np.ones((2, 4))}, "groups=2 does not divide the 3 channels"),
        ({"a": np.ones((2, 6))}, "coefficients must be a: "),
        ({"a": np.ones((3, 6)), "b": np.ones((3, 4)), "channel_dim": 4}, "is not a dim of x"),
        ({"a": np.ones(6, np.float16)}, "a and b must share one float dtype"),
    ],
)
def test_misuse(change, message):
    given = {"x": np.ones((2, 3)), "a": np.ones(6), "b": np.ones(4), **change}
    with pytest.raises((TypeError, ValueError), match=message):
        pj.rational(**given)
    with pytest.raises(TypeError, match="must be one key"):
        pj.randomized(np.ones(3), np.ones(6), np.ones(4), 0.5)


def test_no_torch_is_needed():
    code = "import sys, padenet.jax as p; p.rational(1.0, [1.0] * 6, [1.0] * 4); "
    code += "import padenet.jax.flax, padenet.jax.equinox; print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"
