"""The order of an epoch: a function of seed and epoch alone, shared among the ranks."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Sampler


class Draw(NamedTuple):
    """One image of one epoch: all that its random crop depends on."""

    seed: int
    epoch: int
    image: int


def epoch_order(
    length: int, *, seed: int, epoch: int, rank: int = 0, world: int = 1, train: bool = True
) -> Tensor:
    """The indices that a rank takes in an epoch, int64 on the CPU.

    For training the whole is shuffled by (seed, epoch) and every rank has ``length // world`` of
    it; the remaining ``length % world``, others in each epoch, are left out. For test the ranks
    take turns in the order of the files, each image once.
    """
    if not 0 <= rank < world:
        raise ValueError(f"rank={rank} must be from 0 to {world - 1}, as world={world}.")
    if seed < 0 or epoch < 0:
        raise ValueError(f"seed={seed} and epoch={epoch} must not be negative.")
    if not train:
        return torch.arange(length)[rank::world].clone()
    order = np.random.default_rng((seed, epoch)).permutation(length)
    return torch.from_numpy(order[: length - length % world][rank::world].copy())


class EpochSampler(Sampler[Draw]):
    """``epoch_order`` as a DataLoader's sampler; call ``set_epoch`` before each epoch.

    It gives the ``Draw`` that ``ImageFolder`` takes as index, so what a worker makes of an image
    does not depend on the worker, on earlier epochs or on a restart.
    """

    def __init__(
        self, length: int, *, seed: int = 0, rank: int = 0, world: int = 1, train: bool = True
    ) -> None:
        self.length, self.seed, self.epoch = length, seed, 0
        self.rank, self.world, self.train = rank, world, train
        self._size = len(self._order())

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Draw]:
        for index in self._order().tolist():
            yield Draw(self.seed, self.epoch, index)

    def _order(self) -> Tensor:
        return epoch_order(
            self.length,
            seed=self.seed,
            epoch=self.epoch,
            rank=self.rank,
            world=self.world,
            train=self.train,
        )
