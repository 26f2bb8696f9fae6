"""The baselines against their formulas in NumPy, their starts, gradients, layouts and errors."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import functional_call

from padenet.torch.baselines import APL, SLAF, Maxout, Mixture, SReLU, fit_lrelu, penalty

MAKE = {
    "apl": lambda **o: APL(6, **o),
    "apl of three": lambda **o: APL(6, hinges=3, **o),
    "srelu": lambda **o: SReLU(6, **o),
    "mixture": Mixture,
    "slaf": SLAF,
}
SHAPES = [(5, 6), (2, 6, 3), (3, 6, 4, 5)]


def apl(x, slopes, points):
    return np.maximum(0, x) + sum(
        a * np.maximum(0, b - x) for a, b in zip(slopes, points, strict=True)
    )


def srelu(x, t_l, a_l, t_r, a_r):
    low, high = t_l + a_l * (x - t_l), t_r + a_r * (x - t_r)
    return np.where(x > t_r, high, np.where(x < t_l, low, x))


def mixture(x, weight):
    return weight[0] * x + weight[1] * np.maximum(0, x)


def slaf(x, coefficients):
    return sum(a * x**k for k, a in enumerate(coefficients))


FORMULAS = {"apl": apl, "apl of three": apl, "srelu": srelu, "mixture": mixture, "slaf": slaf}


def magnitude(name, unit, x):
    """How much is added up to get each value: the formula with every term made positive."""
    p = [q.detach().double().abs().numpy() for q in unit.parameters()]
    x = x.double().abs().movedim(1, -1).numpy()
    if name == "srelu":
        t_l, a_l, t_r, a_r = p
        size = x + (1 + a_l) * (t_l + x) + (1 + a_r) * (t_r + x)
    elif name.startswith("apl"):
        size = x + sum(a * (b + x) for a, b in zip(*p, strict=True))
    else:
        size = FORMULAS[name](x, *p)
    return torch.from_numpy(size).movedim(-1, 1)


def moved(name, gen, dtype=torch.float64):
    """The unit at random parameters, in the order of thresholds that SReLU keeps."""
    unit = MAKE[name](dtype=dtype)
    with torch.no_grad():
        for p in unit.parameters():
            p.copy_(torch.randn(p.shape, generator=gen, dtype=torch.float64))
        if name == "srelu":
            unit.t_r.copy_(unit.t_l + unit.t_r.abs())
    return unit


def expected(name, unit, x, channel_dim=1):
    values = x.double().movedim(channel_dim, -1).numpy()
    y = FORMULAS[name](values, *(p.detach().double().numpy() for p in unit.parameters()))
    return torch.from_numpy(y).movedim(-1, channel_dim)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", MAKE)
def test_formulas(name, shape, gen):
    unit = moved(name, gen)
    x = 2 * torch.randn(shape, generator=gen, dtype=torch.float64)
    torch.testing.assert_close(unit(x).detach(), expected(name, unit, x), rtol=1e-14, atol=1e-13)


@pytest.mark.parametrize("name", ["apl", "srelu"])
@pytest.mark.parametrize("channel_dim", [-1, 2, 0])
def test_channels_elsewhere(name, channel_dim, gen):
    unit = moved(name, gen)
    unit.channel_dim = channel_dim
    x = torch.randn(6, 6, 6, generator=gen, dtype=torch.float64)
    y = expected(name, unit, x, channel_dim)
    torch.testing.assert_close(unit(x).detach(), y, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", MAKE)
def test_half_precision_keeps_dtype_and_format(name, dtype, gen):
    """Parameters, differences and sums are rounded to x's type, by half an eps each: 6 at most.
    SLAF is computed in float32, in 12 roundings, and rounded once."""
    unit = moved(name, gen, torch.float32)
    x = torch.randn(3, 6, 4, 5, generator=gen).to(dtype, memory_format=torch.channels_last)
    with torch.autocast("cpu", dtype):
        y = unit(x)
    assert y.dtype == dtype and y.is_contiguous(memory_format=torch.channels_last)
    exact, size = expected(name, unit, x), magnitude(name, unit, x)
    eps = torch.finfo(dtype).eps
    bound = 6 / 2 * eps * size
    if name == "slaf":
        bound = eps * exact.abs() + 12 / 2 * torch.finfo(torch.float32).eps * size
    assert ((y.detach().double() - exact).abs() <= bound).all()


@pytest.mark.parametrize("name", MAKE)
def test_channels_last_is_kept(name, gen):
    x = torch.randn(3, 6, 4, 5, generator=gen).to(memory_format=torch.channels_last)
    y = MAKE[name]()(x.requires_grad_())
    assert y.is_contiguous(memory_format=torch.channels_last)
    y.backward(torch.ones_like(y))
    assert x.grad.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("name", MAKE)
def test_gradients(name, gen):
    unit = moved(name, gen)
    names, values = zip(*unit.named_parameters(), strict=True)
    # A grid of odd multiples of .01 at parameters rounded to .02 is away from every kink.
    values = [(v.detach() * 50).round() / 50 for v in values]
    x = (torch.randn(4, 6, 3, generator=gen, dtype=torch.float64) * 50).round() / 50 + 0.01

    def f(x, *values):
        return functional_call(unit, dict(zip(names, values, strict=True)), x)

    assert torch.autograd.gradcheck(f, [t.requires_grad_() for t in (x, *values)])


def test_starts():
    x = torch.linspace(-4, 4, 66)[:, None].expand(-1, 6)  # no 0, where ReLU has no derivative
    torch.testing.assert_close(APL(6)(x), x.relu())
    assert APL(6).points.T.tolist() == [[-1.0, 1.0]] * 6
    torch.testing.assert_close(SReLU(6)(x), torch.where(x > 0, x, 0.2 * x))
    srelu = SReLU(2)
    assert [p.tolist() for p in (srelu.t_l, srelu.t_r, srelu.a_r)] == [[0, 0], [1, 1], [1, 1]]
    torch.testing.assert_close(Mixture()(x), torch.where(x > 0, x, 0.5 * x))
    assert Mixture().weight.tolist() == [0.5, 0.5]


@pytest.mark.parametrize("degree", [1, 5, 8])
def test_slaf_starts_at_the_least_squares_fit(degree):
    """Against a solver on nodes that integrate both halves exactly."""
    nodes, weights = np.polynomial.legendre.leggauss(20)
    x = np.concatenate([1.5 * (nodes - 1), 1.5 * (nodes + 1)])
    root = np.sqrt(np.concatenate([weights, weights]))
    powers = x[:, None] ** np.arange(degree + 1)
    target = np.where(x > 0, x, 0.01 * x)
    best = np.linalg.lstsq(root[:, None] * powers, root * target, rcond=None)[0]
    np.testing.assert_allclose(fit_lrelu(degree), best, rtol=1e-9, atol=1e-12)
    unit = SLAF(degree=degree, dtype=torch.float64)
    np.testing.assert_allclose(unit.coefficients.detach().numpy(), best, rtol=1e-9, atol=1e-12)


def test_a_polynomial_that_runs_away_is_no_error():
    y = SLAF()(torch.tensor([1e30, float("nan")], requires_grad=True))
    assert not y.isfinite().any()
    y.sum().backward()


def test_penalty_is_weight_decay():
    model = nn.Sequential(APL(3), nn.ReLU(), APL(2))
    p = list(model.parameters())
    with torch.no_grad():
        model[0].slopes.fill_(2.0)  # 6 values; the 10 points are at -1 and 1, the rest is 0
    loss = penalty(model)
    assert loss.item() == pytest.approx(0.001 / 2 * (6 * 4 + 10))
    for t, g in zip(p, torch.autograd.grad(loss, p), strict=True):
        torch.testing.assert_close(g, APL.l2 * t.detach())
    assert penalty(nn.Sequential(nn.ReLU(), SReLU(3))) == 0


def test_maxout_takes_the_larger_neighbour(gen):
    x = torch.tensor([[1.0, 2.0, -3.0, -4.0, 5.0, 5.0]], requires_grad=True)
    y = Maxout()(x)
    assert y.tolist() == [[2.0, -3.0, 5.0]]
    (dx,) = torch.autograd.grad(y, x, torch.ones_like(y))
    assert dx.tolist() == [[0.0, 1.0, 1.0, 0.0, 0.5, 0.5]]  # equal ones share
    assert Maxout(pieces=3)(x).tolist() == [[2.0, 5.0]]
    assert Maxout(channel_dim=-1)(x[None]).tolist() == [[[2.0, -3.0, 5.0]]]
    assert Maxout()(torch.tensor([[1.0, float("nan")], [float("nan"), 1.0]])).isnan().all()
    images = torch.randn(2, 8, 4, 4, generator=gen).to(memory_format=torch.channels_last)
    y = Maxout()(images)
    assert torch.equal(y, torch.maximum(images[:, ::2], images[:, 1::2]))
    assert y.is_contiguous(memory_format=torch.channels_last)


def test_maxout_after_a_depthwise_convolution_stays_within_channels(gen):
    conv = nn.Conv2d(3, 6, 1, groups=3, bias=False)
    with torch.no_grad():
        conv.weight.copy_(torch.tensor([1.0, -1, 1, -1, 1, -1]).view_as(conv.weight))
    x = torch.randn(2, 3, 4, 4, generator=gen)
    assert torch.equal(Maxout()(conv(x)), x.abs())


UNITS = {
    "APL(6, hinges=2)": APL(6),
    "APL(6, hinges=1, channel_dim=-1)": APL(6, hinges=1, channel_dim=-1),
    "SReLU(6)": SReLU(6),
    "Maxout(pieces=2)": Maxout(),
    "Mixture()": Mixture(),
    "SLAF(degree=5)": SLAF(),
}


def test_repr():
    assert {repr(unit) for unit in UNITS.values()} == set(UNITS)


@pytest.mark.no_poison
@pytest.mark.parametrize("name", MAKE)
def test_made_without_memory_and_filled_later(name):
    with torch.device("meta"):
        unit = MAKE[name]()
    assert {p.device.type for p in unit.parameters()} == {"meta"}
    unit.to_empty(device="cpu").reset_parameters()
    for p, q in zip(unit.parameters(), MAKE[name]().parameters(), strict=True):
        assert torch.equal(p, q)


@pytest.mark.no_poison
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch, used by dynamo itself
@pytest.mark.parametrize("name", [*MAKE, "maxout"])
def test_compiles_to_one_graph(name, gen):
    torch._dynamo.reset()
    unit = Maxout() if name == "maxout" else moved(name, gen, torch.float32)
    x = torch.randn(2, 6, 3, 3, generator=gen)
    f = torch.compile(unit, fullgraph=True, backend="aot_eager")
    inputs = [x.requires_grad_(), *unit.parameters()]
    eager = torch.autograd.grad(unit(x).square().sum(), inputs)
    compiled = torch.autograd.grad(f(x).square().sum(), inputs)
    torch.testing.assert_close(compiled, eager)


WRONG = [
    (lambda: APL(0), "channels=0 must be a whole number from 1 on"),
    (lambda: SReLU(2.5), "channels=2.5 must be a whole number"),
    (lambda: APL(3, hinges=0), "hinges=0 must be"),
    (lambda: Maxout(pieces=0), "pieces=0 must be"),
    (lambda: SLAF(degree=0), "degree=0 must be"),
    (lambda: APL(3)(torch.ones(2, 4)), r"has 3 channels in dim 1, but x has shape \(2, 4\)"),
    (lambda: SReLU(3, channel_dim=2)(torch.ones(2, 3)), r"in dim 2, but x has shape \(2, 3\)"),
    (lambda: Maxout()(torch.ones(2, 3)), r"by 2, but x has 3, shape \(2, 3\)"),
]


@pytest.mark.parametrize("call, says", WRONG, ids=[w[1] for w in WRONG])
def test_errors_name_the_value(call, says):
    with pytest.raises(ValueError, match=says):
        call()
