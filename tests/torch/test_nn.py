"""PAU and RPAU as modules: options, errors, what they store, how they travel."""

import copy
import io
import pickle

import numpy as np
import pytest
import torch
from formula import Case, assert_near, formula, problem
from torch import nn

import padenet
from padenet.core.starting.starts import STARTS

pytestmark = pytest.mark.filterwarnings("ignore:padenet runs on plain PyTorch")
UNITS = pytest.mark.parametrize("unit", [padenet.PAU, padenet.RPAU])
SAFE = [name for name, s in STARTS.items() if s.form == "safe" and s.degrees == (5, 4)]


@pytest.mark.parametrize("name", SAFE)
def test_named_starts(name):
    unit, start = padenet.PAU(name), STARTS[name]
    x = torch.linspace(*start.interval, 200)
    expected = formula(x.double(), torch.tensor(start.a).double(), torch.tensor(start.b).double())
    assert_near(unit(x).detach(), expected, 32)


@pytest.mark.parametrize("name", [n for n in STARTS if n not in SAFE])
def test_starts_of_other_forms_are_taken_with_their_form(name):
    start = STARTS[name]
    unit = padenet.PAU(name, form=start.form, degrees=start.degrees)
    assert_near(unit.a.detach(), torch.tensor(start.a, dtype=torch.float64), 1)
    with pytest.raises(ValueError, match=f"start '{name}' was made for"):
        padenet.PAU(name, form="offset", degrees=start.degrees)


DEGREES = [(0, 0), (0, 1), (1, 0), (3, 2), (2, 5), (5, 4), (8, 8), (12, 12)]


@pytest.mark.parametrize("form", ["safe", "abs_terms", "free", "offset"])
@pytest.mark.parametrize("degrees", DEGREES)
def test_degrees(degrees, form, backend):
    case = Case(form, groups=2, degrees=degrees)
    x, a, b = problem(case)
    unit = padenet.PAU((a, b), degrees=degrees, form=form, groups=2, dtype=torch.float64)
    assert unit.a.shape == (2, degrees[0] + 1)
    assert unit.b.shape == (2, degrees[1] + (form == "offset"))
    x.requires_grad_()
    actual = torch.autograd.grad(unit(x).sum(), [x, unit.a, unit.b], allow_unused=True)
    y = formula(x, unit.a, unit.b, form=form)
    expected = torch.autograd.grad(y.sum(), [x, unit.a, unit.b], allow_unused=True)
    assert_near(unit(x), y, 256)
    for u, v in zip(actual, expected, strict=True):
        assert_near(u, torch.zeros_like(u) if v is None else v, 512)


@pytest.mark.parametrize("channel_dim", [1, -1, -3, 2])
def test_each_group_is_a_unit_of_its_own(channel_dim):
    case = Case(groups=3, channel_dim=channel_dim)
    x, a, b = problem(case, (2, 6, 6, 6), torch.float32)
    unit = padenet.PAU((a, b), groups=3, channel_dim=channel_dim)
    chunks = [padenet.PAU((a[g], b[g]))(c) for g, c in enumerate(x.chunk(3, channel_dim))]
    assert_near(unit(x).detach(), torch.cat(chunks, channel_dim).detach(), 4)


def test_one_start_serves_every_group():
    a, b = [0.0, 1.0], [0.5]
    unit = padenet.PAU((a, b), degrees=(1, 1), groups=3)
    assert unit.a.tolist() == [a] * 3 and unit.b.tolist() == [b] * 3


@UNITS
def test_options_are_kept(unit):
    u = unit(((1.0, 2.0), (0.5,)), degrees=(1, 1), q=0.25, groups=2, channel_dim=-1, inplace=True)
    assert (u.degrees, u.form, u.q, u.groups, u.channel_dim) == ((1, 1), "safe", 0.25, 2, -1)
    x = torch.tensor([[-4.0, 4.0]])
    before = x.clone()
    torch.testing.assert_close(u.eval()(x), (1 + 2 * x) / (0.25 + 0.5 * x.abs()))
    assert torch.equal(x, before)  # inplace is accepted and ignored


def test_repr():
    assert repr(padenet.PAU()) == "PAU(init='lrelu', degrees=(5, 4), form='safe')"
    unit = padenet.RPAU(((1.0,), ()), degrees=(0, 0), q=0.5, groups=2, channel_dim=-1, alpha=0.1)
    assert repr(unit) == (
        "RPAU(init=given, degrees=(0, 0), form='safe', q=0.5, groups=2, channel_dim=-1, alpha=0.1)"
    )


WRONG = [
    (dict(init="lrleu"), ValueError, "unknown start 'lrleu'. Did you mean 'lrelu'"),
    (dict(init=3), TypeError, "init=3 is neither the name of a start nor a pair"),
    (dict(init=([1.0],)), TypeError, "neither the name of a start nor a pair"),
    (dict(init="paper_relu"), ValueError, "start 'paper_relu' was made for .* form='abs_terms'"),
    (dict(init=([1.0, 2.0], [3.0])), ValueError, "2 numerator and 1 denominator values"),
    (dict(init=([[[1.0]]], [[[1.0]]])), ValueError, "coefficients must be a"),
    (dict(init=([[0.0] * 6] * 3, [[0.0] * 4] * 3), groups=2), ValueError, "for 3 groups"),
    (dict(init=([[0.0] * 6] * 3, [[0.0] * 4] * 3)), ValueError, "for 3 groups"),
    (dict(degrees=(-1, 4)), ValueError, r"degrees=\(-1, 4\) must be whole numbers"),
    (dict(degrees=(2.5, 4)), ValueError, "must be whole numbers"),
    (dict(degrees=5), TypeError, "degrees=5 must be a pair"),
    (dict(degrees=(5, 4, 3)), TypeError, "must be a pair"),
    (dict(groups=0), ValueError, "groups=0 must be a whole number from 1 on"),
    (
        dict(form="unsafe"),
        ValueError,
        r"unknown form 'unsafe'. Did you mean 'safe'\? Known: safe",
    ),
    (dict(q=0), ValueError, r"must be in \[1e-06, 1\]"),
    (dict(q=1.5), ValueError, r"q=1.5 must be in \[1e-06, 1\]"),
    (dict(q=float("nan")), ValueError, r"must be in \[1e-06, 1\]"),
    (dict(q=0.5, form="free"), ValueError, "q=0.5 has no meaning for form='free'"),
    (dict(dtype=torch.int32), TypeError, "must be one of torch.float32"),
    (dict(dtype=torch.float8_e4m3fn), TypeError, "must be one of torch.float32"),
    (dict(dtype="float32"), TypeError, "dtype='float32' .* must be one of torch.float32"),
    (dict(groups="2"), ValueError, "groups='2' must be a whole number from 1 on"),
    (dict(channel_dim=None), TypeError, "channel_dim=None must be an int"),
    (dict(q="1"), TypeError, "q='1' must be a number"),
    (dict(init=("a", "b")), TypeError, r"init=\('a', 'b'\): a and b must be numbers"),
]


@UNITS
@pytest.mark.parametrize("options, error, message", WRONG, ids=[w[2] for w in WRONG])
def test_errors_name_the_value(unit, options, error, message):
    with pytest.raises(error, match=message):
        unit(**options)


@pytest.mark.parametrize("alpha", [-0.1, 1.5, float("nan"), float("inf")])
def test_alpha_is_checked_when_it_is_given_and_used(alpha):
    with pytest.raises(ValueError, match=r"alpha=.* must be in \[0, 1\]"):
        padenet.RPAU(alpha=alpha)
    unit = padenet.RPAU()
    unit.alpha = alpha
    with pytest.raises(ValueError, match=r"alpha=.* must be in \[0, 1\]"):
        unit(torch.randn(2))


def test_coefficients_may_be_computed_from_other_tensors():
    """As hypernetworks and weight pruning do: ``a`` is then no parameter of the unit."""
    unit, x = padenet.PAU(), torch.linspace(-2, 2, 9)
    scale = torch.tensor(2.0, requires_grad=True)
    a, want = unit.a.detach(), unit(x).detach()
    del unit.a
    unit.a = a * scale
    y = unit(x)
    assert torch.allclose(y, 2 * want)
    y.sum().backward()
    assert torch.allclose(scale.grad, want.sum())


def test_groups_must_divide_the_channels():
    with pytest.raises(ValueError, match="groups=4 does not divide the 6 channels of x"):
        padenet.PAU(groups=4)(torch.randn(2, 6))
    with pytest.raises(ValueError, match="channel_dim=1 is not a dim of x"):
        padenet.PAU(groups=4)(torch.randn(8))


@UNITS
@pytest.mark.parametrize("groups", [1, 3])
def test_state_dict_holds_a_b_and_what_the_unit_is(unit, groups):
    one, other = unit("tanh", groups=groups), unit("sigmoid", groups=groups)
    state = one.state_dict()
    assert list(state) == ["a", "b", "_extra_state"] and not list(one.buffers())
    buffer = io.BytesIO()
    torch.save(state, buffer)
    buffer.seek(0)
    result = other.load_state_dict(torch.load(buffer, weights_only=True))
    assert not result.missing_keys and not result.unexpected_keys
    x = torch.randn(4, 3)
    assert torch.equal(one.eval()(x), other.eval()(x))


def test_pau_and_rpau_exchange_states():
    pau, rpau = padenet.PAU("tanh"), padenet.RPAU()
    rpau.load_state_dict(pau.state_dict())
    assert torch.equal(rpau.a, pau.a) and torch.equal(rpau.b, pau.b)


def test_state_of_other_degrees_is_refused():
    unit = padenet.PAU(([0.0, 1.0], [1.0]), degrees=(1, 1))
    with pytest.raises(RuntimeError, match=r"saved with degrees=\(5, 4\) and has degrees=\(1, 1\)"):
        unit.load_state_dict(padenet.PAU().state_dict())


@UNITS
@pytest.mark.parametrize("travel", [copy.deepcopy, lambda u: pickle.loads(pickle.dumps(u))])
def test_copies_are_equal_and_separate(unit, travel):
    one = unit("tanh", groups=2).eval()
    other = travel(one)
    x = torch.randn(3, 4)
    assert repr(one) == repr(other) and torch.equal(one(x), other(x))
    with torch.no_grad():
        other.a.add_(1)
    assert not torch.equal(one(x), other(x))


@UNITS
@pytest.mark.parametrize(
    "convert, dtype",
    [
        (nn.Module.half, torch.float16),
        (nn.Module.bfloat16, torch.bfloat16),
        (nn.Module.double, torch.float64),
        (lambda u: u.to(torch.float32), torch.float32),
    ],
    ids=["half", "bfloat16", "double", "to"],
)
def test_dtypes(unit, convert, dtype):
    layer = convert(unit("tanh", groups=2)).eval()
    x = torch.linspace(-2, 2, 8).reshape(2, 4).to(dtype).requires_grad_()
    y = layer(x)
    y.sum().backward()
    assert {t.dtype for t in (y, x.grad, layer.a.grad, layer.b.grad)} == {dtype}
    assert_near(y, formula(x.double(), layer.a.double(), layer.b.double()), 64)


def test_dtype_and_device_of_the_constructor():
    unit = padenet.PAU(dtype=torch.float64, device="cpu")
    assert unit.a.dtype == unit.b.dtype == torch.float64
    assert unit.a.tolist() == list(STARTS["lrelu"].a)  # no rounding on the way


@UNITS
def test_reset_parameters(unit):
    layer = unit("swish", groups=2)
    before = copy.deepcopy(layer.state_dict())
    with torch.no_grad():
        layer.a.zero_(), layer.b.fill_(3.0)
    layer.reset_parameters()
    for name, value in layer.state_dict().items():
        assert torch.equal(value, before[name])


def test_given_start_is_not_shared_with_the_caller():
    a, b = torch.tensor([0.0, 1.0]), torch.tensor([0.5])
    unit = padenet.PAU((a, b), degrees=(1, 1))
    a.fill_(9.0)
    assert unit.a.tolist() == [0.0, 1.0]


def test_training_moves_the_coefficients():
    torch.manual_seed(0)
    unit = padenet.PAU("lrelu")
    x = torch.linspace(-3, 3, 400)
    optimizer = torch.optim.Adam(unit.parameters(), 0.01)
    losses = []
    for _ in range(200):
        loss = (unit(x) - torch.tanh(x)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.02 * losses[0]


@UNITS
def test_parametrize_and_functional_call(unit):
    """Coefficients that are not plain parameters: reparametrised, or handed in from outside."""
    layer, x = unit("tanh").eval(), torch.randn(5)
    state = {k: 2 * v for k, v in layer.state_dict().items()}
    y = torch.func.functional_call(layer, state, (x,))
    assert torch.equal(y, padenet.rational(x, state["a"], state["b"]))

    class Twice(nn.Module):
        def forward(self, c):
            return 2 * c

    for name in ("a", "b"):
        nn.utils.parametrize.register_parametrization(layer, name, Twice())
    assert torch.equal(layer(x), y)


def test_alpha_must_be_a_number():
    with pytest.raises(TypeError, match="alpha=None must be a number"):
        padenet.RPAU(alpha=None)


def test_numbers_of_numpy_and_one_group_in_two_dims():
    assert padenet.PAU(groups=np.int64(2), q=np.float32(0.5)).a.shape == (2, 6)
    a, b = torch.randn(1, 6), torch.randn(1, 4)
    unit = padenet.PAU((a, b))
    assert torch.equal(unit.a, a[0]) and torch.equal(unit.b, b[0])
