"""Batches of a data set on a device.

A ticket is what travels to the device for a batch: the indices of images that are there already,
or the images themselves. ``fetch`` makes images and labels of it by operations that a CUDA graph
can hold.
"""

from collections.abc import Iterator
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from padenet.lab.data import Dataset, EpochSampler, Folder, ImageFolder, epoch_order
from padenet.lab.run.machine import count_cores
from padenet.lab.run.ranks import Ranks

Ticket = tuple[Tensor, ...]
TEST_BATCH = 1000  # of all processes together


class Batches(Protocol):
    """The batches of one part of a data set, training or test."""

    def __len__(self) -> int: ...

    def tickets(self, epoch: int) -> Iterator[Ticket]: ...

    def fetch(self, ticket: Ticket) -> tuple[Tensor, Tensor]: ...


class InMemory:
    """The images stay on the device, as uint8; a ticket holds indices."""

    def __init__(self, images: Tensor, labels: Tensor, device: torch.device, **order: Any):
        self.images, self.labels = images.to(device), labels.to(device)
        self.order, self.batch = order, order.pop("batch")
        self.count = len(epoch_order(len(images), epoch=0, **order))

    def __len__(self) -> int:
        return _batches(self.count, self.batch, self.order["train"])

    def tickets(self, epoch: int) -> Iterator[Ticket]:
        order = epoch_order(len(self.images), epoch=epoch, **self.order).to(self.images.device)
        for i in range(len(self)):
            yield (order[i * self.batch : (i + 1) * self.batch],)

    def fetch(self, ticket: Ticket) -> tuple[Tensor, Tensor]:
        (index,) = ticket
        return self.images[index], self.labels[index]


def worker_count() -> int:
    """Processes that decode images, unless asked otherwise: 4, or as many as there are cores."""
    return min(4, count_cores())


class FromFolder:
    """Worker processes decode the images; a ticket holds them."""

    def __init__(self, folder: ImageFolder, device: torch.device, *, workers: int, **order: Any):
        self.device = device
        batch = order.pop("batch")
        self.sampler = EpochSampler(len(folder), **order)
        self.loader: DataLoader[Any] = DataLoader(
            folder,
            batch,
            sampler=self.sampler,
            num_workers=workers,
            drop_last=order["train"],
            pin_memory=device.type == "cuda",
            persistent_workers=workers > 0,
        )

    def __len__(self) -> int:
        return len(self.loader)

    def tickets(self, epoch: int) -> Iterator[Ticket]:
        self.sampler.set_epoch(epoch)
        try:
            yield from map(tuple, self.loader)
        except ValueError as error:
            # A worker's traceback comes as text before what the folder says.
            raise ValueError(str(error).splitlines()[-1].removeprefix("ValueError: ")) from error

    def fetch(self, ticket: Ticket) -> tuple[Tensor, Tensor]:
        images, labels = (t.to(self.device, non_blocking=True) for t in ticket)
        return images, labels


def make_batches(
    data: Dataset | Folder,
    device: torch.device,
    *,
    seed: int,
    batch_size: int,
    ranks: Ranks,
    workers: int | None = None,
) -> tuple[Batches, Batches]:
    """Training and test batches of this process. ``batch_size`` is that of all together."""
    if batch_size % ranks.world:
        raise ValueError(
            f"batch_size={batch_size} cannot be shared by {ranks.world} processes. "
            f"Choose a multiple of {ranks.world}."
        )
    workers = worker_count() if workers is None else workers
    order = {"seed": seed, "rank": ranks.rank, "world": ranks.world}
    train: dict[str, Any] = {"batch": batch_size // ranks.world, "train": True, **order}
    test: dict[str, Any] = {"batch": max(1, TEST_BATCH // ranks.world), "train": False, **order}
    made: tuple[Batches, Batches]
    if isinstance(data, Folder):
        made = (
            FromFolder(data.train, device, workers=workers, **train),
            FromFolder(data.test, device, workers=workers, **test),
        )
    else:
        made = (
            InMemory(data.train_images, data.train_labels, device, **train),
            InMemory(data.test_images, data.test_labels, device, **test),
        )
    if len(made[0]) == 0:
        raise ValueError(f"batch_size={batch_size} is more than {data.name} has images to train.")
    return made


def _batches(count: int, batch: int, drop_last: bool) -> int:
    return count // batch if drop_last else -(-count // batch)
