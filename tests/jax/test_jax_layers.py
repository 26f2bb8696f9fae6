"""``padenet.jax.flax`` and ``padenet.jax.equinox``: layers, masks and the stabiliser."""

import numpy as np
import pytest
import torch

import padenet
from padenet.torch import trust

jax = pytest.importorskip("jax", reason="jax is not installed")
eqx = pytest.importorskip("equinox", reason="equinox is not installed")
nnx = pytest.importorskip("flax.nnx", reason="flax is not installed")
optax = pytest.importorskip("optax", reason="optax is not installed")

import jax.numpy as jnp  # noqa: E402

import padenet.jax.equinox as pe  # noqa: E402
import padenet.jax.flax as pf  # noqa: E402
from padenet.jax import decay_mask, rational, stabilize  # noqa: E402
from padenet.jax.trust import hold  # noqa: E402

KEY = jax.random.key(7)


class Net(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(8, 16, rngs=rngs)
        self.act = pf.PAU("gelu")
        self.second = nnx.Linear(16, 1, rngs=rngs)
        self.last = pf.PAU(groups=1)

    def __call__(self, x):
        return self.last(self.second(self.act(self.first(x))))


@pytest.mark.parametrize("module", [pe, pf])
def test_a_unit_is_that_of_torch(module):
    x = np.linspace(-4, 4, 24, dtype=np.float32).reshape(2, 12)
    for options in ({}, {"init": "swish", "groups": 3, "channel_dim": -1}, {"form": "abs_terms"}):
        unit, want = module.PAU(**options), padenet.PAU(**options)
        y = want(torch.from_numpy(x)).detach().numpy()
        # A few roundings of terms up to 40.
        assert np.abs(np.asarray(unit(jnp.asarray(x))) - y).max() < 1e-5
        assert unit.a.shape == tuple(want.a.shape)


@pytest.mark.parametrize("module", [pe, pf])
def test_the_noise_is_that_of_torch(module):
    x = torch.linspace(-3, 3, 50)
    unit, spec = module.RPAU("gelu", alpha=0.1), padenet.core.Spec(alpha=0.1)
    given = {"key": KEY} if module is pe else {"rngs": KEY}
    y = unit(jnp.asarray(x.numpy()), **given)
    one = padenet.PAU("gelu")
    want = padenet.torch.functional.apply(x, one.a, one.b, torch.tensor(7), spec)
    assert np.abs(np.asarray(y) - want.detach().numpy()).max() < 1e-5


def test_equinox_without_a_key_or_in_inference():
    unit, x = pe.RPAU(alpha=0.1), jnp.ones(3)
    with pytest.raises(RuntimeError, match="RPAU needs a key"):
        unit(x)
    assert (eqx.nn.inference_mode(unit)(x) == pe.PAU()(x)).all()
    assert (unit(x, inference=True) == pe.PAU()(x, key=KEY)).all()


def test_flax_trains_and_evaluates():
    x = jnp.ones((2, 3))
    net = nnx.Sequential(pf.RPAU(alpha=0.5, rngs=nnx.Rngs(0)))
    assert (net(x) != net(x)).any()
    net.eval()
    assert (net(x) == pf.PAU()(x)).all()
    with pytest.raises(ValueError, match="RPAU needs keys"):
        pf.RPAU()(x)
    net = pf.PAU(dtype=jnp.bfloat16)
    assert net(x).dtype == jnp.bfloat16 and net.a[...].dtype == jnp.float32


def test_a_unit_per_neuron_of_an_mlp():
    """``eqx.nn.MLP`` copies its activation by vmap, and applies the copies by vmap."""
    mlp = eqx.nn.MLP(2, 1, 16, 2, activation=pe.PAU("tanh"), key=KEY)
    assert mlp.activation.a.shape == (2, 16, 6)
    x = jax.random.normal(KEY, (32, 2))
    loss = lambda m, x: (jax.vmap(m)(x) ** 2).mean()
    grads = eqx.filter_jit(eqx.filter_grad(loss))(mlp, x)
    assert grads.activation.a.shape == (2, 16, 6)
    one = eqx.tree_at(lambda m: m.activation.a, mlp, mlp.activation.a.at[1, 3, 0].add(1e-2))
    change = float(loss(one, x) - loss(mlp, x))
    expected = float(grads.activation.a[1, 3, 0]) * 1e-2
    assert change == pytest.approx(expected, rel=0.1, abs=1e-6)


def test_coefficients_do_not_decay():
    net = Net(nnx.Rngs(0))
    tx = optax.chain(optax.add_decayed_weights(0.1, mask=decay_mask(net)), optax.scale(-1.0))
    before = jax.tree.map(jnp.array, nnx.to_pure_dict(nnx.state(net, nnx.Param)))
    optimizer = nnx.Optimizer(net, tx, wrt=nnx.Param)
    zeros = jax.tree.map(jnp.zeros_like, nnx.state(net, nnx.Param))
    optimizer.update(net, zeros)
    after = nnx.to_pure_dict(nnx.state(net, nnx.Param))
    assert (after["act"]["a"] == before["act"]["a"]).all()
    assert (after["last"]["b"] == before["last"]["b"]).all()
    assert (after["first"]["kernel"] != before["first"]["kernel"]).all()
    mlp = eqx.nn.MLP(2, 1, 4, 1, activation=pe.PAU(), key=KEY)
    params = eqx.filter(mlp, eqx.is_inexact_array)
    mask = decay_mask(mlp)(params)
    assert mask.layers[0].weight and not mask.activation.a and not mask.activation.b


@pytest.mark.parametrize("form", ["safe", "abs_terms", "free"])
def test_a_held_step_is_that_of_torch(form):
    """In float64: the same operations in another order, whose roundings the eight tries to find t
    may multiply by the steepness of F."""
    rng = np.random.default_rng(0)
    start = padenet.core.STARTS["gelu"]
    a, b = (np.tile(c, (9, 1)) for c in (start.a, start.b))
    size = np.logspace(-5, 0, 9)[:, None]
    new = [c + size * rng.standard_normal(c.shape) for c in (a, b)]
    floor = 0.1 * b[:, -1] if form == "safe" else np.zeros(9)
    spec = padenet.core.Spec(form)
    grid = trust.make_grid((5, 4), spec, torch.device("cpu"))
    tensors = [torch.from_numpy(c) for c in (a, b, *new, floor)]
    want = trust.hold(
        (tensors[0], tensors[1]), (tensors[2], tensors[3]), tensors[4], grid, spec, 0.01
    )
    with jax.enable_x64(True):
        arrays = [jnp.asarray(c) for c in (a, b, *new, floor)]
        got = jax.jit(hold, static_argnums=(3, 4, 5))(
            (arrays[0], arrays[1]), (arrays[2], arrays[3]), arrays[4], (5, 4), spec, 0.01
        )
        got = [np.asarray(v) for v in got]
    for g, w in zip(got[:2], want[:2], strict=True):
        assert np.abs(g - w.numpy()).max() < 1e-9
    assert (got[2] == want.cut.numpy()).all() and got[2].any()


def test_stabilize_is_that_of_torch():
    """Three steps of one unit by the same gradients, one of them a spike. 1e-5: float32 here."""
    x = np.linspace(-3, 3, 64, dtype=np.float32)
    unit = padenet.PAU("gelu")
    optimizer = torch.optim.SGD(unit.parameters(), lr=0.05)
    report = padenet.stabilize(unit, optimizer)
    mine = pe.PAU("gelu")
    tx = stabilize(optax.sgd(0.05), mine)
    params = eqx.filter(mine, eqx.is_inexact_array)
    state = tx.init(params)
    step = eqx.filter_jit(tx.update)
    for scale in (1.0, 1.2, 50.0):
        optimizer.zero_grad()
        (scale * unit(torch.from_numpy(x)).square().sum()).backward()
        optimizer.step()
        grads = jax.grad(lambda p, scale: scale * (p(jnp.asarray(x)) ** 2).sum())(params, scale)
        updates, state = step(grads, state, params)
        params = optax.apply_updates(params, updates)
        for own, his in ((params.a, unit.a), (params.b, unit.b)):
            assert np.abs(np.asarray(own) - his.detach().numpy()).max() < 1e-5
    (held,), (spikes,) = report.report(), report.gradients()
    assert (int(state.steps), int(state.held[0])) == (held.steps, held.held)
    assert int(state.cut) == spikes.held == 1


def test_stabilize_in_flax_and_under_vmap():
    net = Net(nnx.Rngs(0))
    optimizer = nnx.Optimizer(net, stabilize(optax.sgd(10.0), net), wrt=nnx.Param)
    x = jax.random.normal(KEY, (32, 8))
    far = jnp.linspace(-3, 3, 101)
    before = rational(far, net.act.a[...], net.act.b[...])
    grads = nnx.grad(lambda n: (n(x) ** 2).mean())(net)
    optimizer.update(net, grads)
    move = jnp.abs(rational(far, net.act.a[...], net.act.b[...]) - before).max()
    assert 0 < move < 0.0101
    mlp = eqx.nn.MLP(2, 1, 4, 2, activation=pe.PAU(), key=KEY)
    tx = stabilize(optax.sgd(10.0), mlp)
    params = eqx.filter(mlp, eqx.is_inexact_array)
    grads = eqx.filter_grad(lambda m: (jax.vmap(m)(x[:, :2]) ** 2).mean())(mlp)
    updates, _ = tx.update(grads, tx.init(params), params)
    assert updates.activation.a.shape == (2, 4, 6)


def test_misuse():
    with pytest.raises(ValueError, match="model has no unit to stabilize"):
        stabilize(optax.sgd(0.1), eqx.nn.Linear(2, 2, key=KEY))
    with pytest.raises(ValueError, match="most=0 must be a finite number above 0"):
        stabilize(optax.sgd(0.1), pe.PAU(), most=0)
    with pytest.raises(ValueError, match="the parameters have no coefficients of unit"):
        stabilize(optax.sgd(0.1), eqx.nn.MLP(2, 1, 4, 1, activation=pe.PAU(), key=KEY)).init({})
    with pytest.raises(ValueError, match="groups=0 must be a whole number"):
        pe.PAU(groups=0)
    with pytest.raises(ValueError, match="unknown start 'gleu'"):
        pf.PAU("gleu")
    with pytest.raises(ValueError, match="is about names and functions"):
        pf.PAU(([1.0] * 6, [1.0] * 4), aim="near")
    assert pe.PAU(jnp.tanh).a.shape == (6,)
