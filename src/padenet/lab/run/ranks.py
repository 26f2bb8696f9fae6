"""The processes that share a run: one, or those that ``torchrun`` started."""

import gc
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

VARIABLES = ("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
FIX = "Start with torchrun --nproc-per-node N -m padenet train …, or unset WORLD_SIZE."


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


def world_size() -> int:
    """The number of processes that ``torchrun`` started, 1 without it."""
    text = os.environ.get("WORLD_SIZE", "1")
    if not text.isdigit() or int(text) < 1:
        raise ValueError(f"WORLD_SIZE={text!r} in the environment is no number of processes. {FIX}")
    return int(text)


@contextmanager
def join_ranks(device: str = "auto") -> Iterator[Ranks]:
    """The process group of ``torchrun``'s variables, left at the end; alone without them.

    When one of the processes fails, it says why, and the others leave without a word.
    """
    world = world_size()
    if world == 1:
        yield Ranks()
        return
    if missing := [name for name in VARIABLES if name not in os.environ]:
        raise ValueError(
            f"WORLD_SIZE={world} is in the environment, but not {', '.join(missing)}. {FIX}"
        )
    local = int(os.environ["LOCAL_RANK"])
    on_gpu = device.startswith(("cuda", "auto")) and torch.cuda.is_available()
    if on_gpu:
        if local >= (gpus := torch.cuda.device_count()):
            raise ValueError(
                f"torchrun started process {local + 1} on this machine, and torch sees {gpus} GPUs "
                f"here. Start at most {gpus}: --nproc-per-node {gpus}, or use --device cpu."
            )
        torch.cuda.set_device(local)
    bound = torch.device("cuda", local) if on_gpu else None
    dist.init_process_group("nccl" if on_gpu else "gloo", device_id=bound)
    try:
        ranks = Ranks(dist.get_rank(), world, local)
        yield ranks
        ranks.wait()
    except RuntimeError as error:
        if not _is_lost_peer(error):
            raise
        raise SystemExit(2) from None
    finally:
        # A DistributedDataParallel that lies in a cycle would hold the group's threads past the
        # end of the group, and the process would abort at its exit.
        gc.collect()
        dist.destroy_process_group()


def _is_lost_peer(error: RuntimeError) -> bool:
    """Whether it is what gloo or nccl say when another process of the group has ended."""
    words = ("Connection closed by peer", "Connection reset by peer", "remote process exited")
    return any(w in str(error) for w in words)
