"""``convert``: which start takes the place of which activation, however it is spelled."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from networks import (
    QUIET,
    Calls,
    units_of,
)
from torch import nn

import padenet
from padenet import convert
from padenet.core.starting.aims import AIMS
from padenet.core.starting.starts import STARTS, STARTS_BY_AIM, find_start

pytestmark = QUIET


SPELLINGS = {
    "F.relu": (lambda x: F.relu(x), "relu"),
    "F.relu(inplace)": (lambda x: F.relu(x, True), "relu"),
    "F.relu_": (lambda x: F.relu_(x), "relu"),
    "torch.relu": (lambda x: torch.relu(x), "relu"),
    "torch.relu_": (lambda x: torch.relu_(x), "relu"),
    "x.relu": (lambda x: x.relu(), "relu"),
    "x.relu_": (lambda x: x.relu_(), "relu"),
    "F.relu6": (lambda x: F.relu6(x), "relu6"),
    "F.leaky_relu": (lambda x: F.leaky_relu(x), "lrelu"),
    "F.leaky_relu(.2)": (lambda x: F.leaky_relu(x, 0.2), "lrelu_0.20"),
    "F.leaky_relu_": (lambda x: F.leaky_relu_(x, negative_slope=0.3), "lrelu_0.30"),
    "F.leaky_relu(.07)": (lambda x: F.leaky_relu(x, 0.07, inplace=True), "lrelu 0.07"),
    "F.rrelu": (lambda x: F.rrelu(x, 0.1, 0.3), "lrelu_0.20"),
    "F.elu": (lambda x: F.elu(x), "elu"),
    "F.celu": (lambda x: F.celu(x), "elu"),
    "F.selu": (lambda x: F.selu(x), "selu"),
    "torch.selu": (lambda x: torch.selu(x), "selu"),
    "F.silu": (lambda x: F.silu(x), "swish"),
    "F.gelu": (lambda x: F.gelu(x), "gelu"),
    "F.gelu(tanh)": (lambda x: F.gelu(x, approximate="tanh"), "gelu"),
    "F.mish": (lambda x: F.mish(x), "mish"),
    "F.hardswish": (lambda x: F.hardswish(x), "hardswish"),
    "F.sigmoid": (lambda x: F.sigmoid(x), "sigmoid"),
    "torch.sigmoid": (lambda x: torch.sigmoid(x), "sigmoid"),
    "expit": (lambda x: torch.special.expit(x), "sigmoid"),
    "x.sigmoid_": (lambda x: x.sigmoid_(), "sigmoid"),
    "F.tanh": (lambda x: F.tanh(x), "tanh"),
    "torch.tanh": (lambda x: torch.tanh(x), "tanh"),
    "x.tanh": (lambda x: x.tanh(), "tanh"),
    "F.softplus": (lambda x: F.softplus(x), "softplus"),
}


WORST = 0.0282  # rms of the worst default start, that of lrelu_-0.5


def assert_starts_as(unit, function, rms, channels=1):
    """The reported error is the unit's own, measured here by another rule."""
    x = torch.linspace(-3, 3, 4001, dtype=torch.float64)[:, None].repeat(1, channels)
    error = (unit.double()(x) - function(x.clone())).detach()
    measured = float(error.square().mean().sqrt())
    assert math.isclose(measured, rms, rel_tol=0.02, abs_tol=2e-7)  # coefficients in float32


@pytest.mark.parametrize("name", SPELLINGS)
def test_functions_and_methods(name):
    function, start = SPELLINGS[name]
    new, report = convert(Calls(function).eval())
    (entry,) = report.replaced
    assert entry.start == start and not report.left, report
    (unit,) = units_of(new).values()
    x = torch.randn(5, 4)
    assert torch.equal(new(x), new.last(unit(new.lin(x))))
    if "rrelu" in name:
        function = lambda x: F.leaky_relu(x, 0.2)
    assert entry.rms <= WORST
    assert_starts_as(unit, function, entry.rms)


ACTIVATIONS = [
    (nn.ReLU(), "relu"),
    (nn.ReLU6(), "relu6"),
    (nn.LeakyReLU(), "lrelu"),
    (nn.LeakyReLU(0.25), "lrelu_0.25"),
    (nn.LeakyReLU(-0.5), "lrelu_-0.5"),
    (nn.LeakyReLU(0), "relu"),
    (nn.LeakyReLU(0.07), "lrelu 0.07"),
    (nn.LeakyReLU(1.5), "lrelu 1.5"),
    (nn.PReLU(), "lrelu_0.25"),
    (nn.PReLU(init=0.125), "lrelu 0.125"),
    (nn.RReLU().eval(), "lrelu 0.2292"),
    (nn.ELU(), "elu"),
    (nn.CELU(), "elu"),
    (nn.SELU(), "selu"),
    (nn.SiLU(), "swish"),
    (nn.GELU(), "gelu"),
    (nn.GELU("tanh"), "gelu"),
    (nn.Mish(), "mish"),
    (nn.Hardswish(), "hardswish"),
    (nn.Sigmoid(), "sigmoid"),
    (nn.Tanh(), "tanh"),
    (nn.Softplus(), "softplus"),
]


@pytest.mark.parametrize("module, start", ACTIVATIONS, ids=str)
def test_modules(module, start):
    unit, report = convert(module)
    (entry,) = report.replaced
    assert (type(unit), entry.name, entry.start) == (padenet.PAU, "", start)
    assert unit.training == module.training
    assert entry.rms <= WORST
    assert_starts_as(unit, module.double(), entry.rms)
    assert "(model)" in str(report)


@pytest.mark.parametrize("aim", AIMS)
@pytest.mark.parametrize("module, name", ACTIVATIONS, ids=str)
def test_units_have_the_aim_that_is_asked_for(module, name, aim):
    """As stored, and where nothing is stored with the error that a blend of the relu start has."""
    model = nn.Sequential(module, copy.deepcopy(module))
    new, report = convert(model, aim=aim, dtype=torch.float64, everything=True)
    first, second = report.replaced
    assert first.start == second.start == name and first.rms == second.rms
    if name in STARTS:
        start = find_start(name, aim)
        assert new[0].init == name and new[0].aim == aim
        assert (new[1].a.tolist(), new[1].b.tolist()) == (list(start.a), list(start.b))
        if getattr(module, "approximate", "none") == "none":
            assert math.isclose(first.rms, start.rms, rel_tol=1e-3, abs_tol=1e-12)
    else:
        slope = float(name.partition(" ")[2])
        assert math.isclose(first.rms, abs(1 - slope) * find_start("relu", aim).rms, rel_tol=1e-3)
    assert_starts_as(new[0], module.double(), first.rms)


def test_a_fit_has_the_aim_of_the_activation():
    """With other degrees too: near for hardswish, wide for gelu, else what is asked for."""
    pytest.importorskip("scipy")
    for module, name in ((nn.Hardswish(), "hardswish"), (nn.GELU(), "gelu")):
        unit, _ = convert(module, degrees=(4, 3))
        other = padenet.PAU(name, degrees=(4, 3))
        torch.testing.assert_close(unit.a, other.a, rtol=1e-5, atol=1e-6)
    for options in ({"aim": "near"}, {"aim": "steady"}, {"unit": padenet.RPAU, "aim": "near"}):
        unit, report = convert(nn.LeakyReLU(0.3), degrees=(3, 2), **options)
        expected = padenet.PAU("lrelu_0.30", degrees=(3, 2), aim=options["aim"])
        torch.testing.assert_close(unit.b, expected.b, rtol=1e-5, atol=1e-6)
        assert_starts_as(unit.eval(), nn.LeakyReLU(0.3), report.replaced[0].rms)


def test_an_unknown_aim_is_refused():
    for module in (nn.ReLU(), nn.LeakyReLU(0.07)):
        with pytest.raises(ValueError, match=r"unknown aim 'naer'. Did you mean 'near'"):
            convert(module, aim="naer")


@pytest.mark.parametrize("aim", AIMS)
def test_a_blend_is_as_good_as_the_stored_fit(aim):
    """LReLU(s) = s x + (1 - s) relu(x): the relu start gives every slope its optimum."""
    from padenet.torch.conversion.activations import _blend

    for slope, name in [(0.01, "lrelu"), (0.2, "lrelu_0.20"), (0.3, "lrelu_0.30")]:
        start = find_start(name, aim)
        a, b = _blend(slope, aim)
        torch.testing.assert_close(a, torch.tensor(start.a).double(), rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(b, torch.tensor(start.b).double(), rtol=1e-6, atol=1e-6)


def test_prelu_with_a_slope_a_channel():
    module = nn.PReLU(6)
    with torch.no_grad():
        module.weight.copy_(torch.tensor([-0.1, 0.0, 0.1, 0.25, 0.5, 1.0]))
    unit, report = convert(module)
    assert unit.groups == 6 and unit.channel_dim == 1
    assert report.replaced[0].was == "PReLU(6 slopes)"
    assert_starts_as(unit, module.double(), report.replaced[0].rms, channels=6)


FITTED = [
    (
        nn.LeakyReLU(-0.2),
        {},
        1.21 * STARTS_BY_AIM["relu"]["wide"].rms,
    ),  # -0.2 x + 1.2 relu(x) is among them
    (nn.ELU(0.5), {"aim": "near"}, 5e-3),
    (nn.Tanh(), {"degrees": (3, 2), "aim": "near"}, 1e-2),
]


@pytest.mark.parametrize("module, options, limit", FITTED, ids=str)
def test_what_has_no_stored_start_is_fitted(module, options, limit):
    pytest.importorskip("padenet.core.fitting")
    pytest.importorskip("scipy")
    unit, report = convert(nn.Sequential(module, copy.deepcopy(module)), everything=True, **options)
    for entry in report.replaced:
        assert entry.start.startswith("fitted") and entry.rms < limit
    assert_starts_as(unit[0], module.double(), entry.rms)
    assert unit[0].degrees == options.get("degrees", (5, 4))
