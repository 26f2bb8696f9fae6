"""The processes that share a run: one, or those that ``torchrun`` started."""

import gc
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor


@dataclass(frozen=True)
class Ranks:
    """This process is number ``rank`` of ``world``; ``local`` is its number on its machine."""

    rank: int = 0
    world: int = 1
    local: int = 0

    @property
    def leads(self) -> bool:
        """Whether this process writes the files and prints."""
        return self.rank == 0

    def total(self, values: Tensor) -> Tensor:
        """The sum over all processes, in place."""
        if self.world > 1:
            dist.all_reduce(values)
        return values

    def agree(self, values: Iterable[Tensor]) -> None:
        """Give all processes the values of the first, in place."""
        if self.world > 1:
            for value in values:
                dist.broadcast(value, 0)

    def wait(self) -> None:
        """Until all processes are here."""
        if self.world > 1:
            dist.barrier()


@contextmanager
def join_ranks(device: str = "auto") -> Iterator[Ranks]:
    """The process group of ``torchrun``'s variables, left at the end; alone without them."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world == 1:
        yield Ranks()
        return
    on_gpu = device.startswith("cuda") or (device == "auto" and torch.cuda.is_available())
    local = int(os.environ["LOCAL_RANK"])
    if on_gpu:
        torch.cuda.set_device(local)
    bound = torch.device("cuda", local) if on_gpu else None
    dist.init_process_group("nccl" if on_gpu else "gloo", device_id=bound)
    try:
        ranks = Ranks(dist.get_rank(), world, local)
        yield ranks
        ranks.wait()
    finally:
        # A DistributedDataParallel that lies in a cycle would hold the group's threads past the
        # end of the group, and the process would abort at its exit.
        gc.collect()
        dist.destroy_process_group()
