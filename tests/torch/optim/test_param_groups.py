"""Optimiser groups of a model with units."""

import torch
from networks import QUIET, images
from torch import nn

import padenet
from padenet import convert, param_groups

pytestmark = QUIET


def test_param_groups():
    layers = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()
    model, _ = convert(nn.Sequential(*layers), groups=2, everything=True)
    model[0].bias.requires_grad_(False)
    weights, coefficients = param_groups(model, lr=0.1, weight_decay=0.5, coefficient_lr=0.01)
    assert (weights["name"], coefficients["name"]) == ("weights", "coefficients")
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
    model = nn.Sequential(
        nn.Linear(4, 4), nn.PReLU(), padenet.PAU(), padenet.torch.baselines.SReLU(4)
    )
    groups = param_groups(model, lr=0.1, weight_decay=0.5, coefficient_lr=0.01)
    assert [g["name"] for g in groups] == ["weights", "coefficients", "activations"]
    assert [(g["lr"], g["weight_decay"]) for g in groups] == [(0.1, 0.5), (0.01, 0), (0.1, 0)]
    of = [(model[0],), (model[2],), (model[1], model[3])]
    for group, modules in zip(groups, of, strict=True):
        want = [p for m in modules for p in m.parameters()]
        assert {id(p) for p in group["params"]} == {id(p) for p in want}
        assert len(group["params"]) == len(want)


def test_tables_of_coefficients_are_no_matrices():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), padenet.PAU(groups=4), nn.Flatten(), nn.Linear(4, 2))
    matrices, weights, coefficients = param_groups(model, lr=0.1, matrices=True)
    assert [g["name"] for g in (matrices, weights)] == ["matrices", "weights"]
    assert [id(p) for p in matrices["params"]] == [id(model[3].weight)]
    assert len(weights["params"]) == 3
    assert all(p.ndim == 2 for p in coefficients["params"])


def test_a_schedule_of_rates_by_group_keeps_that_of_the_coefficients():
    """As docs/stability.md has it; one number for all groups would take its place."""
    model = nn.Sequential(nn.Linear(2, 2), padenet.PAU())
    optimizer = torch.optim.AdamW(param_groups(model, lr=0.1, coefficient_lr=0.001))
    rates = [group["lr"] for group in optimizer.param_groups]
    torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=rates, total_steps=10)
    first, second = (group["lr"] for group in optimizer.param_groups)
    assert abs(second / first - 0.01) < 4 * 2**-52  # a product and a quotient each
