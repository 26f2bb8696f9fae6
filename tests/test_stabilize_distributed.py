"""``padenet.stabilize`` under DDP and FSDP2: two gloo processes do what one does."""

from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from formula import assert_near
from torch import nn

import padenet

WORLD, STEPS, SPIKED = 2, 8, 5
pytestmark = [
    pytest.mark.skipif(
        not (dist.is_available() and dist.is_gloo_available()), reason="torch without gloo"
    ),
    pytest.mark.filterwarnings("ignore:padenet runs on plain PyTorch"),
]


def make_net():
    """In float64. Three groups and 5 or 6 coefficients do not divide evenly by two."""
    torch.manual_seed(0)
    units = padenet.PAU(groups=3), padenet.PAU("tanh"), padenet.PAU("gelu", form="offset")
    parts = nn.Linear(6, 9), units[0], nn.Linear(9, 8), units[1], units[2], nn.Linear(8, 2)
    return nn.Sequential(*parts).double()


def make_batch():
    draw = torch.Generator().manual_seed(1)
    return torch.randn(8, 6, generator=draw, dtype=torch.float64)


def with_ddp(net):
    return nn.parallel.DistributedDataParallel(net)


def with_fsdp(net):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (WORLD,))
    for layer in net:
        fully_shard(layer, mesh=mesh)
    return fully_shard(net, mesh=mesh)


WRAPS = {"ddp": with_ddp, "fsdp": with_fsdp}
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
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", f"file://{store}/store", timedelta(seconds=60), rank=rank, world_size=WORLD
    )
    try:
        half = make_batch().chunk(WORLD)[rank]
        for name, wrap in WRAPS.items():
            for kind in OPTIMIZERS:
                done = train(wrap(make_net()), half, kind)
                torch.save(done, f"{store}/{name}-{kind}-{rank}.pt")
        dist.barrier()
    finally:
        dist.destroy_process_group()


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A directory with what came out. Two processes do all: most of the time is their start."""
    store = tmp_path_factory.mktemp("distributed")
    torch.multiprocessing.spawn(work, (str(store),), nprocs=WORLD)
    return store


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
