"""``convert`` knows an activation by what its formula computes, however it is written."""

import math

import pytest
import torch
import torch.nn.functional as F
from networks import QUIET, Calls, units_of
from torch import nn

from padenet import convert
from padenet.core.starting.starts import STARTS

pytestmark = QUIET

ROOT = math.sqrt(2.0 / math.pi)


def gelu_new(x):
    return (
        0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))
    )


def gelu_old(x):
    """As in the first GPT and BERT, with a constant that is a tensor."""
    root = torch.sqrt(torch.tensor(2.0 / math.pi))
    return 0.5 * x * (1 + torch.tanh(root * (x + 0.044715 * x**3)))


def gelu_fast(x):
    return 0.5 * x * (1.0 + torch.tanh(x * 0.7978845608 * (1.0 + 0.044715 * x * x)))


def gelu_steps(x):
    cube = x.pow(3).mul(0.044715)
    inner = (x + cube).mul(ROOT)
    cdf = (torch.tanh(inner) + 1).mul(0.5)
    return x * cdf


def gelu_erf(x):
    return x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))


def swish(x, inplace=False):
    return x.mul_(x.sigmoid()) if inplace else x.mul(x.sigmoid())


def mish(x):
    return x * torch.tanh(F.softplus(x))


def hard_swish(x):
    return x * F.relu6(x + 3.0) / 6.0


def elu(x):
    return torch.where(x > 0, x, torch.exp(torch.clamp(x, max=0)) - 1)


def leaky(x, slope=0.2):
    return torch.max(x, slope * x)


WHOLE = {
    "gelu_new": (gelu_new, "gelu"),
    "gelu_old": (gelu_old, "gelu"),
    "gelu_fast": (gelu_fast, "gelu"),
    "gelu_steps": (gelu_steps, "gelu"),
    "gelu_erf": (gelu_erf, "gelu"),
    "gelu of a float": (lambda x: x.float() * 0.5 * (1 + torch.erf(x.float() / 2**0.5)), "gelu"),
    "silu": (lambda x: x * torch.sigmoid(x), "swish"),
    "silu(exp)": (lambda x: x / (1 + torch.exp(-x)), "swish"),
    "swish": (swish, "swish"),
    "swish(inplace)": (lambda x: swish(x, True), "swish"),
    "mish": (mish, "mish"),
    "mish(log)": (lambda x: x * torch.tanh(torch.log(1 + torch.exp(x))), "mish"),
    "hardswish": (hard_swish, "hardswish"),
    "hardswish(clamp)": (lambda x: x * torch.clamp(x + 3, 0, 6) / 6, "hardswish"),
    "softplus": (lambda x: torch.log(1 + torch.exp(x)), "softplus"),
    "relu(clamp)": (lambda x: x.clamp(min=0), "relu"),
    "relu(max)": (lambda x: torch.maximum(x, torch.zeros_like(x)), "relu"),
    "relu(where)": (lambda x: torch.where(x > 0, x, 0.0), "relu"),
    "relu(mask)": (lambda x: x * (x > 0).float(), "relu"),
    "relu6(clamp)": (lambda x: torch.clamp(x, 0, 6), "relu6"),
    "leaky": (leaky, "lrelu_0.20"),
    "leaky(where)": (lambda x: torch.where(x >= 0, x, 0.07 * x), "lrelu 0.07"),
    "elu": (elu, "elu"),
    "tanh": (lambda x: 2 * torch.sigmoid(2 * x) - 1, "tanh"),
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_formula_is_one_unit(name):
    """In a function outside the class, whose call as a whole is replaced."""
    function, start = WHOLE[name]
    new, report = convert(Calls(function).double())
    assert [r.start for r in report.replaced] == [start] and not report.left, report
    (unit,) = units_of(new).values()
    x = torch.randn(50, 4).double() * 3
    h = new.lin(x)
    assert torch.equal(new(x), new.last(unit(h)))
    limit, reach = (STARTS[start].errors.to_10, 10) if start in STARTS else (0.1, 3)
    h = torch.linspace(-reach, reach, 101).double()
    assert float((unit(h) - function(h.clone())).detach().abs().max()) <= limit + 1e-3


FITTED = {
    "quick_gelu": (lambda x: x * torch.sigmoid(1.702 * x), "SiLU by hand(1.702)"),
    "relu(x)**2": (lambda x: F.relu(x) ** 2, "relu² by hand"),
    "relu(x) relu(x)": (lambda x: F.relu(x) * F.relu(x), "relu² by hand"),
    "relu.square": (lambda x: torch.square(torch.relu(x)), "relu² by hand"),
}


@pytest.mark.parametrize("name", FITTED)
def test_formulas_without_a_stored_start_are_fitted(name):
    pytest.importorskip("scipy")
    function, was = FITTED[name]
    new, report = convert(Calls(function).double())
    (entry,) = report.replaced
    assert entry.was == was and entry.start == "fitted" and not report.left
    (unit,) = units_of(new).values()
    x = torch.linspace(-3, 3, 601).double()
    error = (unit(x) - function(x)).detach()
    assert float(error.square().mean().sqrt()) == pytest.approx(entry.rms, rel=0.02)
    assert entry.rms < 0.05


class Inline(nn.Module):
    """Formulas in the text of the forward: in one expression, over several lines, in place."""

    def __init__(self):
        super().__init__()
        self.one, self.two, self.three = (nn.Linear(4, 4) for _ in range(3))
        self.sigmoid, self.beta = nn.Sigmoid(), 1.0

    def forward(self, x):
        x = self.one(x)
        x = 0.5 * x * (1 + torch.tanh(ROOT * (x + 0.044715 * x**3)))
        x = self.two(x)
        gate = self.sigmoid(self.beta * x)
        x = x * gate
        y = self.three(x)
        y *= torch.sigmoid(y)
        return self.one(F.relu(self.two(y)).pow(1) + 1)


def test_formulas_in_a_forward():
    new, report = convert(Inline().double())
    assert {r.name for r in report.replaced} == {"gelu", "silu", "silu_2", "relu"}, report
    assert not report.left
    x = torch.randn(3, 4).double()
    h = new.silu(new.two(new.gelu(new.one(x))))
    y = new.silu_2(new.three(h))
    torch.testing.assert_close(new(x), new.one(new.relu(new.two(y)) + 1))


class NewGELU(nn.Module):
    def forward(self, input):
        return gelu_new(input)


class HardSigmoid(nn.Module):
    def __init__(self):
        super().__init__()
        self.relu = nn.ReLU6(inplace=True)

    def forward(self, x):
        return self.relu(x + 3) / 6


class HardSwish(nn.Module):
    def __init__(self):
        super().__init__()
        self.sigmoid = HardSigmoid()

    def forward(self, x):
        return x * self.sigmoid(x)


class Switched(nn.Module):
    """transformers': the function is chosen when the module is made."""

    def __init__(self):
        super().__init__()
        self.act = self._python

    def _python(self, x):
        return gelu_erf(x)

    def forward(self, x):
        return self.act(x)


def test_a_module_that_is_an_activation_is_one():
    acts = [NewGELU(), HardSwish(), Switched()]
    layers = [m for act in acts for m in (nn.Linear(4, 4), act)]
    model = nn.Sequential(*layers, nn.Linear(4, 4))
    new, report = convert(model)
    assert [(r.name, r.was, r.start) for r in report.replaced] == [
        ("1", "NewGELU", "gelu"),
        ("3", "HardSwish", "hardswish"),
        ("5", "Switched", "gelu"),
    ]
    assert not report.left and len(list(new.modules())) == 8
    unit, report = convert(HardSwish())
    assert type(unit).__name__ == "PAU" and report.replaced[0].name == ""
    assert convert(model, only=nn.GELU)[1].replaced[1].name == "5"


UNKNOWN = {
    "tanhshrink": lambda x: x * torch.tanh(x),
    "power": lambda x: torch.sigmoid(x) ** 3,
    "log": lambda x: torch.log(F.softplus(x) + 1e-3),
    "serf": lambda x: x * torch.erf(F.softplus(x)),
    "laplace": lambda x: F.relu(x).sqrt() + 1,
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_part_of_an_unknown_formula_is_left(name):
    class Text(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin, self.last, self.sigmoid = nn.Linear(4, 4), nn.Linear(4, 4), nn.Sigmoid()
            self.beta = nn.Parameter(torch.ones(()))

        def forward(self, x):
            h = self.lin(x)
            h = h * self.sigmoid(self.beta * h)  # its slope is learned
            h = self.last(h)
            h = h * torch.tanh(h) + F.relu(h)  # the sum is one of two
            return self.last(h)

    for model, count in ((Calls(UNKNOWN[name]), 0), (Text(), 1)):
        new, report = convert(model, everything=True)
        assert len(report.replaced) == count, report
        assert report.left
        for entry in report.left:
            assert "part of a formula" in entry.why or "outside the class" in entry.why
    x = torch.randn(5, 4)
    before = Calls(UNKNOWN[name])
    assert torch.equal(convert(before)[0](x), before(x))
    assert new.sigmoid.__class__ is nn.Sigmoid


def test_a_setting_is_not_taken_for_a_constant():
    """What a configuration holds may change; 1.702 in the text does not."""

    class Config:
        beta = 1.0

    class Set(Calls):
        def forward(self, x):
            h = self.lin(x)
            return self.last(h * torch.sigmoid(self.function.beta * h))

    model = Set(Config())
    model.function.beta = 1.0
    new, report = convert(model)
    assert not report.replaced and "part of a formula" in report.left[0].why
    x = torch.randn(3, 4)
    before = new(x)
    new.function.beta = 2.0
    assert not torch.equal(new(x), before)


def test_sums_and_factors_leave_an_activation_what_it_is():
    class Residual(Calls):
        def forward(self, x):
            h = self.lin(x)
            h = h + 2.0 * F.relu(h)
            return self.last(1 - torch.tanh(h + 1))

    new, report = convert(Residual(None))
    assert [r.name for r in report.replaced] == ["relu", "tanh"] and not report.left
    x = torch.randn(3, 4)
    h = new.lin(x)
    h = h + 2.0 * new.relu(h)
    assert torch.equal(new(x), new.last(1 - new.tanh(h + 1)))
