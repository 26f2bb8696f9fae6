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
from padenet.coefficients import STARTS
from padenet.convert import convert

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
    assert torch.equal(new(x), unit(new.lin(x)))
    if "rrelu" in name:
        function = lambda x: F.leaky_relu(x, 0.2)
    assert entry.rms < 7e-3
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
    assert entry.rms < 7e-3
    assert_starts_as(unit, module.double(), entry.rms)
    assert "(model)" in str(report)


def test_a_blend_is_as_good_as_the_stored_fit():
    """LReLU(s) = s x + (1 - s) relu(x): the relu start gives every slope its optimum."""
    from padenet.convert.activations import _blend

    for slope, name in [(0.01, "lrelu"), (0.2, "lrelu_0.20"), (0.3, "lrelu_0.30")]:
        a, b = _blend(slope)
        torch.testing.assert_close(a, torch.tensor(STARTS[name].a).double(), rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(b, torch.tensor(STARTS[name].b).double(), rtol=1e-6, atol=1e-6)


def test_prelu_with_a_slope_a_channel():
    module = nn.PReLU(6)
    with torch.no_grad():
        module.weight.copy_(torch.tensor([-0.1, 0.0, 0.1, 0.25, 0.5, 1.0]))
    unit, report = convert(module)
    assert unit.groups == 6 and unit.channel_dim == 1
    assert report.replaced[0].was == "PReLU(6 slopes)"
    assert_starts_as(unit, module.double(), report.replaced[0].rms, channels=6)


FITTED = [
    (nn.LeakyReLU(-0.2), {}, 1.21 * STARTS["relu"].rms),  # -0.2 x + 1.2 relu(x) is among them
    (nn.ELU(0.5), {}, 5e-3),
    (nn.Tanh(), {"degrees": (3, 2)}, 1e-2),
]


@pytest.mark.parametrize("module, options, limit", FITTED, ids=str)
def test_what_has_no_stored_start_is_fitted(module, options, limit):
    pytest.importorskip("padenet.fit")
    pytest.importorskip("scipy")
    unit, report = convert(nn.Sequential(module, copy.deepcopy(module)), **options)
    for entry in report.replaced:
        assert entry.start.startswith("fitted") and entry.rms < limit
    assert_starts_as(unit[0], module.double(), entry.rms)
    for key, value in options.items():
        assert getattr(unit[0], key) == value
