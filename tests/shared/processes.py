"""Two gloo processes, and the wrappers that share a net between them."""

import os
import sys
from contextlib import contextmanager
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from torch import nn

WORLD = 2
PATIENCE = timedelta(minutes=10)  # on a busy machine one is ready long before the other
LOOPBACK = {"linux": "lo", "darwin": "lo0"}
MARKS = [
    pytest.mark.skipif(
        not (dist.is_available() and dist.is_gloo_available()), reason="torch without gloo"
    ),
    pytest.mark.filterwarnings("ignore:padenet runs on plain PyTorch"),
]


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


@contextmanager
def joined(rank, store):
    """As one of the processes. They leave together."""
    torch.set_num_threads(1)
    if name := LOOPBACK.get(sys.platform):  # else gloo looks up the machine's own name
        os.environ.setdefault("GLOO_SOCKET_IFNAME", name)
    dist.init_process_group("gloo", f"file://{store}/store", PATIENCE, rank=rank, world_size=WORLD)
    try:
        yield
        dist.barrier()
    finally:
        dist.destroy_process_group()


def run(work, tmp_path_factory):
    """``work(rank, store)`` in each; ``store``, a directory with what came out."""
    store = tmp_path_factory.mktemp("distributed")
    torch.multiprocessing.spawn(work, (str(store),), nprocs=WORLD)
    return store
