"""DDP and FSDP2 over two gloo processes: the gradients of one process on the whole batch."""

from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from formula import assert_near
from torch import nn

import padenet

WORLD = 2
pytestmark = [
    pytest.mark.skipif(
        not (dist.is_available() and dist.is_gloo_available()), reason="torch without gloo"
    ),
    pytest.mark.filterwarnings("ignore:padenet runs on plain PyTorch"),
]


def make_net():
    torch.manual_seed(0)
    start = padenet.PAU(groups=4), padenet.PAU("tanh")
    return nn.Sequential(nn.Linear(6, 8), start[0], nn.Linear(8, 8), start[1], nn.Linear(8, 2))


def make_batch():
    return torch.randn(8, 6, generator=torch.Generator().manual_seed(1))


def with_ddp(net):
    return nn.parallel.DistributedDataParallel(net)


def with_fsdp(net):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (WORLD,))
    for layer in net:
        fully_shard(layer, mesh=mesh)
    return fully_shard(net, mesh=mesh)


def full(t):
    return t.full_tensor() if hasattr(t, "full_tensor") else t


WRAPS = {"ddp": with_ddp, "fsdp": with_fsdp}


def work(rank, store):
    """Two steps of SGD on this rank's half of the batch; rank 0 saves what came out."""
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", f"file://{store}/store", timedelta(seconds=60), rank=rank, world_size=WORLD
    )
    try:
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
    finally:
        dist.destroy_process_group()


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A directory with what came out. Two processes do all: most of the time is their start."""
    store = tmp_path_factory.mktemp("distributed")
    torch.multiprocessing.spawn(work, (str(store),), nprocs=WORLD)
    return store


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
