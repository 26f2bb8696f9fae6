"""A small net with units, and what a stabilised step may do to them."""

import torch
from torch import nn

from padenet import PAU, param_groups
from padenet.torch import trust

POINTS = torch.cat([torch.linspace(-10, 10, trust.INSIDE), torch.tensor(trust.FAR)])


def make_net(**options):
    torch.manual_seed(0)
    unit = PAU("gelu", **options)
    return nn.Sequential(nn.Linear(8, 16), unit, nn.Linear(16, 16), PAU(groups=4), nn.Linear(16, 1))


def loss_of(net):
    draw = torch.Generator().manual_seed(1)
    x, y = torch.randn(32, 8, generator=draw), torch.randn(32, 1, generator=draw)
    p = next(net.parameters())
    return nn.functional.mse_loss(net(x.to(p)), y.to(p))


def train(net, optimizer, steps=3):
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of(net).backward()
        optimizer.step()


def sgd(net, lr=0.5, **options):
    return torch.optim.SGD(param_groups(net, lr=lr), **options)


def assert_held(unit, step):
    """The grid is that of the rule; 1e-5 is the rounding of F in float32, of values up to 100."""
    with torch.no_grad():
        before = unit(POINTS)
        step()
        move = (unit(POINTS) - before).abs() * (3 / POINTS.abs()).clamp(max=1)
    assert 0 < move.max() <= trust.MOST * 1.001 + 1e-5


def assert_same(one, other):
    for p, q in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(p, q)
