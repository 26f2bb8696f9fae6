"""Optimiser groups of a model with units, and the guard on their growth."""

import pytest
import torch
from networks import QUIET, images
from torch import nn

import padenet
from padenet.convert import convert, param_groups

pytestmark = QUIET


def test_param_groups():
    model, _ = convert(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()), groups=2)
    model[0].bias.requires_grad_(False)
    weights, coefficients = param_groups(model, lr=0.1, weight_decay=0.5, coefficient_lr=0.01)
    assert (weights["lr"], weights["weight_decay"]) == (0.1, 0.5)
    assert (coefficients["lr"], coefficients["weight_decay"]) == (0.01, 0.0)
    assert [id(p) for p in coefficients["params"]] == [id(model[2].a), id(model[2].b)]
    assert len(weights["params"]) == 3
    assert param_groups(model, lr=0.1)[1]["lr"] == 0.1
    before = model[2].a.detach().clone()
    optimizer = torch.optim.SGD(param_groups(model, lr=0.1, weight_decay=0.5))
    (0 * model(images()).sum()).backward()
    optimizer.step()
    assert torch.equal(model[2].a, before)


def test_parameters_of_other_activations_do_not_decay():
    """At the rate of the weights, as the experiments have it."""
    model = nn.Sequential(nn.Linear(4, 4), nn.PReLU(), padenet.PAU(), padenet.baselines.SReLU(4))
    groups = param_groups(model, lr=0.1, weight_decay=0.5, coefficient_lr=0.01)
    assert [(g["lr"], g["weight_decay"]) for g in groups] == [(0.1, 0.5), (0.01, 0), (0.1, 0)]
    of = [(model[0],), (model[2],), (model[1], model[3])]
    for group, modules in zip(groups, of, strict=True):
        want = [p for m in modules for p in m.parameters()]
        assert {id(p) for p in group["params"]} == {id(p) for p in want}
        assert len(group["params"]) == len(want)


def test_without_the_guard_a_unit_can_blow_up():
    """What the guard is for: a small negative b_4, and F is as large as P where A is 0."""
    unit = padenet.PAU(aim="near")
    with torch.no_grad():
        unit.b[3] = -0.004
    assert unit(torch.linspace(31, 32, 1001)).max() > 5e6


@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("start, sign", [("lrelu", 1), (([0.0, 1.0, 0.5], [0.1, -0.5]), -1)])
def test_the_guard_holds_the_last_coefficient(groups, start, sign):
    degrees = (5, 4) if isinstance(start, str) else (2, 2)
    unit = padenet.PAU(start, groups=groups, degrees=degrees)
    net = nn.Sequential(nn.Linear(4, 4), unit)
    first = unit.b.detach()[..., -1].clone()
    optimizer = torch.optim.SGD(net.parameters(), 1.0)
    handle = padenet.guard_growth(net, optimizer, floor=0.25)

    def push(by):
        optimizer.zero_grad()
        (unit.b[..., -1] * by).sum().backward()
        optimizer.step()
        return unit.b.detach()[..., -1]

    assert torch.equal(push(10.0 * sign), first * 0.25)  # towards 0 and past it: held
    torch.testing.assert_close(push(-0.5 * sign), first * 0.25 + 0.5 * sign)  # away: free
    handle.remove()
    assert (push(10.0 * sign) * sign < 0).all()


def test_the_guard_needs_units():
    net = nn.Linear(2, 2)
    with pytest.raises(ValueError, match="no unit to guard"):
        padenet.guard_growth(net, torch.optim.SGD(net.parameters()))


def test_the_guard_leaves_other_coefficients_and_units_alone():
    unit, flat = padenet.PAU(), padenet.PAU(([0.0, 1.0], [0.0]), degrees=(1, 1))
    net = nn.Sequential(unit, flat, nn.Linear(2, 2))
    optimizer = torch.optim.SGD(net.parameters(), 1.0)
    padenet.guard_growth(net, optimizer)
    expected = {k: v.clone() - 1 for k, v in net.state_dict().items()}
    sum(p.sum() for p in net.parameters()).backward()
    optimizer.step()
    for name, value in net.state_dict().items():
        if name == "0.b":
            assert value[3] == pytest.approx(0.1 * padenet.PAU().b[3].item())
            assert torch.equal(value[:3], expected[name][:3])
        else:
            assert torch.equal(value, expected[name])


@pytest.mark.parametrize("floor", [0.0, 1.0, -0.1])
def test_the_guard_refuses(floor):
    with pytest.raises(ValueError, match="between 0 and 1"):
        padenet.guard_growth(nn.Linear(1, 1), torch.optim.SGD([torch.zeros(1)], 1.0), floor=floor)
