"""``gain``: against the integral, and what it is for."""

import math

import pytest
import torch
from fits import fitted
from torch import nn

import padenet
from padenet import PAU, gain
from padenet.core.starting.starts import STARTS, STARTS_BY_AIM, find_start

pytest.importorskip("scipy", reason="fitting needs scipy")


@pytest.mark.parametrize(
    "name, aim", [(name, aim) for name, aims in STARTS_BY_AIM.items() for aim in aims]
)
def test_gain_is_the_integral(name, aim):
    start = find_start(name, aim)
    z = torch.linspace(-12, 12, 200001, dtype=torch.float64)
    density = torch.softmax(-z.square() / 2, 0)
    a, b = (torch.tensor(c, dtype=torch.float64) for c in (start.a, start.b))
    y = padenet.rational(z, a, b, form=start.form)
    assert gain(start) == pytest.approx(float((density * y * y).sum()) ** -0.5, rel=1e-3)


def test_gain_takes_units_fits_and_starts():
    assert gain("relu") == gain(STARTS["relu"]) == pytest.approx(math.sqrt(2), rel=1e-3)
    assert gain(PAU("relu")) == pytest.approx(gain("relu"), rel=1e-6)
    assert gain(PAU("relu", groups=3)) == pytest.approx(gain("relu"), rel=1e-6)
    near = gain(find_start("relu", "near"))
    assert gain(fitted("relu")) == gain(fitted("relu", aim="near")) == pytest.approx(near, rel=1e-6)
    small = PAU(([0.0, 2.0], [0.0]), degrees=(1, 1), q=0.5)
    assert gain(small) == pytest.approx(0.25)


def test_gain_of_groups_is_that_of_their_mean():
    unit = PAU(([[0.0, 1.0], [0.0, 3.0]], [[0.0], [0.0]]), degrees=(1, 1), groups=2)
    assert gain(unit) == pytest.approx(5**-0.5)


def test_gain_keeps_the_variance():
    unit, gen = PAU("selu"), torch.Generator().manual_seed(0)
    linear = nn.Linear(2048, 2048, bias=False)
    with torch.no_grad():
        linear.weight.normal_(0, gain(unit) / 2048**0.5, generator=gen)
        y = linear(unit(torch.randn(64, 2048, generator=gen)))
    assert y.square().mean().item() == pytest.approx(1, rel=0.03)


def test_gain_refuses():
    with pytest.raises(TypeError, match="gain takes a PAU, a Fit, a Start or the name"):
        gain(3)
    with pytest.raises(ValueError, match="unknown start 'rleu'"):
        gain("rleu")
    with pytest.raises(ValueError, match="there is no gain"):
        gain(PAU(([0.0], []), degrees=(0, 0)))
