"""DDP and FSDP2 over two gloo processes: the gradients of one process on the whole batch."""

import pytest
import torch
import torch.distributed as dist
from formula import assert_near
from processes import MARKS, WORLD, WRAPS, joined, run
from torch import nn

import padenet

pytestmark = MARKS


def make_net():
    torch.manual_seed(0)
    start = padenet.PAU(groups=4), padenet.PAU("tanh")
    return nn.Sequential(nn.Linear(6, 8), start[0], nn.Linear(8, 8), start[1], nn.Linear(8, 2))


def make_batch():
    return torch.randn(8, 6, generator=torch.Generator().manual_seed(1))


def full(t):
    return t.full_tensor() if hasattr(t, "full_tensor") else t


def work(rank, store):
    """Two steps of SGD on this rank's half of the batch; rank 0 saves what came out."""
    with joined(rank, store):
        for name, wrap in WRAPS.items():
            net = wrap(make_net())
            optimizer = torch.optim.SGD(net.parameters(), 0.01)
            half = make_batch().chunk(WORLD)[rank]
            for _ in range(2):
                optimizer.zero_grad()
                net(half).square().mean().backward()
                grads = [full(p.grad).clone() for p in net.parameters()]
                optimizer.step()
            params = [full(p.detach()).clone() for p in net.parameters()]
            if rank == 0:
                torch.save((grads, params), f"{store}/{name}.pt")
            dist.barrier()


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return run(work, tmp_path_factory)


@pytest.mark.parametrize("name", WRAPS)
def test_gradients_of_one_process(name, results):
    net, x = make_net(), make_batch()
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    for _ in range(2):
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()
    grads, params = torch.load(results / f"{name}.pt")
    assert_near(grads, [p.grad for p in net.parameters()], 64)
    assert_near(params, [p.detach() for p in net.parameters()], 64)
