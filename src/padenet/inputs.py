"""``InputHistogram``: where the inputs of a model's units lie, counted while it runs."""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from padenet.fit.samples import check_interval
from padenet.nn import PAU
from padenet.units import find_units

PART = 1 << 22  # elements counted at once: bounds the memory for their bins


class Histogram(NamedTuple):
    """Counts of one unit's inputs: ``counts[i]`` from ``edges[i]`` up to ``edges[i + 1]``.

    ``below`` and ``above`` count what is outside all bins, infinities among it.
    """

    edges: np.ndarray
    counts: np.ndarray
    below: int
    above: int
    nan: int

    @property
    def total(self) -> int:
        return int(self.counts.sum()) + self.below + self.above + self.nan


class InputHistogram:
    """Counts the inputs of every unit of ``model`` into bins while the ``with`` block runs.

        with padenet.InputHistogram(model) as inputs:
            for x, _ in loader:
                model(x)
        padenet.plot(model, inputs=inputs)
        inputs["layer1.act"].counts

    Memory is constant: one row of counts a unit, on the device of its inputs, where they are
    counted too without waiting for the device. Entering again goes on counting.

    Args:
        model: A model with units, or a unit. Its forward must run as written: compiled models
            may pass hooks by.
        interval: (low, high) of the bins.
        bins: Number of bins, all of one width.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        interval: tuple[float, float] = (-6.0, 6.0),
        bins: int = 120,
    ):
        self.interval = check_interval(interval)
        if not isinstance(bins, int) or bins < 1:
            raise ValueError(f"bins={bins!r} must be a whole number from 1 on.")
        self.bins = bins
        self.units = find_units(model)
        self._names = {unit: name for name, unit in self.units.items()}
        self._counts: dict[str, Tensor] = {}
        self._hooks: list[Any] = []

    def __enter__(self) -> "InputHistogram":
        if self._hooks:
            raise RuntimeError("this InputHistogram is counting already. Enter it once at a time.")
        self._hooks = [
            unit.register_forward_pre_hook(self._count, with_kwargs=True)
            for unit in self.units.values()
        ]
        return self

    def __exit__(self, *_: object) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks = []

    def __getitem__(self, name: str) -> Histogram:
        """The histogram of the unit of that name."""
        if name not in self.units:
            raise KeyError(f"no unit {name!r}. Known: {', '.join(self.units)}.")
        counts = self._counts.get(name)
        row = np.zeros(self.bins + 3, int) if counts is None else counts.cpu().numpy().copy()
        below, *inside, above, nan = row
        edges = np.linspace(*self.interval, self.bins + 1)
        return Histogram(edges, np.array(inside), int(below), int(above), int(nan))

    @torch.no_grad()
    def _count(self, unit: PAU, args: tuple[Tensor, ...], kwargs: dict[str, Tensor]) -> None:
        """A row is [below, bins ..., above, nan]."""
        x, name = (args[0] if args else kwargs["x"]).detach(), self._names[unit]
        row = self._counts.get(name)
        if row is None or row.device != x.device:
            moved = torch.zeros(self.bins + 3, dtype=torch.int64, device=x.device)
            row = self._counts[name] = moved if row is None else moved + row.to(x.device)
        low, high = self.interval
        for part in x.flatten().split(PART):
            part = part if part.dtype == torch.float64 else part.float()
            place = ((part - low) * (self.bins / (high - low))).floor().clamp(-1, self.bins) + 1
            place = torch.where(part == high, self.bins, place)
            place = torch.where(part.isnan(), self.bins + 2, place).long()
            row.scatter_add_(0, place, row.new_ones(1).expand_as(place))
