"""``padenet.stabilize`` under DDP and FSDP2: two gloo processes do what one does."""

import pytest
import torch
from formula import assert_near
from processes import MARKS, WORLD, WRAPS, joined, run
from torch import nn

import padenet

STEPS, SPIKED = 8, 5
pytestmark = MARKS


def make_net():
    """In float64. Three groups and 5 or 6 coefficients do not divide evenly by two."""
    torch.manual_seed(0)
    units = padenet.PAU(groups=3), padenet.PAU("tanh"), padenet.PAU("gelu", form="offset")
    parts = nn.Linear(6, 9), units[0], nn.Linear(9, 8), units[1], units[2], nn.Linear(8, 2)
    return nn.Sequential(*parts).double()


def make_batch():
    draw = torch.Generator().manual_seed(1)
    return torch.randn(8, 6, generator=draw, dtype=torch.float64)


OPTIMIZERS = {
    "sgd": lambda groups: torch.optim.SGD(groups, momentum=0.9),
    "adam": torch.optim.Adam,
}


def train(net, x, kind):
    """Steps so large that they are shortened, and a spike; the coefficients after, and counts.

    Half way the counts go through a checkpoint.
    """
    optimizer = OPTIMIZERS[kind](padenet.param_groups(net, lr=0.05, coefficient_lr=1.0))
    held = padenet.stabilize(net, optimizer)
    for i in range(STEPS):
        optimizer.zero_grad()
        ((100 if i == SPIKED else 1) * net(x).square().mean()).backward()
        optimizer.step()
        if i == STEPS // 2:
            state = held.state_dict()
            held = padenet.stabilize(net, optimizer)
            held.load_state_dict(state)
    params = [p.detach() for p in net.parameters()]
    params = [p.full_tensor() if hasattr(p, "full_tensor") else p.clone() for p in params]
    counts = [(h.steps, h.held, h.since) for h in (*held.report(), *held.gradients())]
    return params, counts


def work(rank, store):
    with joined(rank, store):
        half = make_batch().chunk(WORLD)[rank]
        for name, wrap in WRAPS.items():
            for kind in OPTIMIZERS:
                done = train(wrap(make_net()), half, kind)
                torch.save(done, f"{store}/{name}-{kind}-{rank}.pt")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return run(work, tmp_path_factory)


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("name", WRAPS)
def test_what_one_process_does(name, kind, results):
    """Two halves of a sum are rounded apart, in each of 8 steps."""
    expected, counts = train(make_net(), make_batch(), kind)
    assert counts[-1][1:] == (1, SPIKED + 1)  # the spike, and no other
    assert all(steps == STEPS and held > 0 for steps, held, _ in counts[:-1])
    for rank in range(WORLD):
        got, found = torch.load(results / f"{name}-{kind}-{rank}.pt")
        assert found == counts
        assert_near(got, expected, 64)
