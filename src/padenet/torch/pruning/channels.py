"""What is known of a tensor: which filter each of its channels, in dim 1, comes from."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from torch import Tensor

Lanes = np.ndarray[tuple[int], np.dtype[np.int64]]
STAYS = -1  # in the place of a filter: the channel cannot go


@dataclass(frozen=True)
class Channels:
    """Args:
    lanes: For each channel the number of its filter, or ``STAYS``.
    visible: Convolutions whose filters show in it, with no other reader in between.
    source: The layer that made it, if zeros put there are zeros here.
    """

    lanes: Lanes
    visible: frozenset[str] = frozenset()
    source: str | None = None

    @property
    def can_go(self) -> bool:
        return bool((self.lanes != STAYS).any())

    def with_source(self, source: str | None) -> "Channels":
        return replace(self, source=source)


class Stays(NamedTuple):
    """Why a convolution keeps its filters; ``fine`` if that is as it must be."""

    why: str
    fine: bool


class Call(NamedTuple):
    """Channels into and out of a layer; ``reads`` if it has weights for those that come in."""

    inputs: Lanes
    outputs: Lanes
    reads: bool


def whole(x: Tensor, visible: frozenset[str] = frozenset(), source: str | None = None) -> Channels:
    """Channels that all stay."""
    width = x.shape[1] if x.ndim > 1 else 0
    return Channels(np.full(width, STAYS, dtype=np.int64), visible, source)


class Known:
    """The tensors whose channels are known; they are held, so that each id stays its own."""

    def __init__(self) -> None:
        self.tensors: dict[int, tuple[Tensor, Channels, int]] = {}

    def channels_of(self, x: Tensor) -> Channels | None:
        return self.tensors[id(x)][1] if id(x) in self.tensors else None

    def note(self, x: Tensor, channels: Channels) -> list[tuple[Tensor, Channels]]:
        """Others that share their numbers with ``x``, if these have been written in place."""
        before, now = self.tensors.get(id(x)), _version(x)
        self.tensors[id(x)] = (x, channels, now)
        if before is None or before[2] == now:
            return []
        return [(t, c) for t, c, version in self.tensors.values() if version != _version(t)]


def _version(x: Tensor) -> int:
    """It rises with each change in place, for all views of the same numbers."""
    return 0 if x.is_inference() else x._version


class Filters:
    """Filters by number, with owners; some are merged: they live and die together."""

    def __init__(self) -> None:
        self.parents: list[int] = []
        self.owners: list[str] = []

    def add(self, owner: str, count: int) -> Lanes:
        first = len(self.parents)
        self.parents += range(first, first + count)
        self.owners += [owner] * count
        return np.arange(first, first + count, dtype=np.int64)

    def find(self, lane: int) -> int:
        """The number that stands for all that are merged with it."""
        while self.parents[lane] != lane:
            self.parents[lane] = self.parents[self.parents[lane]]
            lane = self.parents[lane]
        return lane

    def merge(self, lanes: Lanes, others: Lanes) -> None:
        for a, b in zip(lanes.tolist(), others.tolist(), strict=True):
            a, b = sorted((self.find(a), self.find(b)))
            self.parents[b] = a

    def heads(self, lanes: Lanes) -> Lanes:
        return np.array([x if x == STAYS else self.find(x) for x in lanes.tolist()], np.int64)

    def owners_of(self, lanes: Lanes) -> list[str]:
        return list(dict.fromkeys(self.owners[x] for x in lanes.tolist() if x != STAYS))
