"""``InputHistogram``: where the inputs of a model's units lie, counted while it runs."""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from padenet.core.fitting.samples import check_interval
from padenet.torch.nn import PAU
from padenet.torch.seeing.finding import find_units

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


class Counter:
    """Counts numbers into bins, or sums their weights, one row per group.

    The rows are kept on the device of the numbers, which is not waited for. A row is
    [below, bins ..., above, nan]; the last bin includes its upper edge.
    """

    def __init__(self, edges: np.ndarray, groups: int = 1, dtype: torch.dtype = torch.int64):
        self.edges = edges
        self.rows = torch.zeros(groups, len(edges) + 2, dtype=dtype)
        self._placed = torch.as_tensor(edges)

    @torch.no_grad()
    def add(self, x: Tensor, weights: Tensor | None = None) -> None:
        """Count ``x``, shape (groups, numbers)."""
        self.rows = rows = self.rows.to(x.device)
        wide = torch.float64 if x.dtype == torch.float64 else torch.float32
        if self._placed.dtype != wide or self._placed.device != x.device:
            self._placed = torch.as_tensor(self.edges).to(x.device, wide)
        edges = self._placed
        last = len(edges)
        length = max(1, PART // len(x))
        for start in range(0, x.shape[1], length):
            part = x[:, start : start + length].to(wide).contiguous()
            place = torch.bucketize(part, edges, right=True)
            place = torch.where(part == edges[-1], last - 1, place)
            place = torch.where(part.isnan(), last + 1, place)
            if weights is None:
                rows.scatter_add_(1, place, rows.new_ones(1).expand_as(place))
            else:
                rows.scatter_add_(1, place, weights[:, start : start + length].to(rows.dtype))


class InputHistogram:
    """Counts the inputs of every unit of ``model`` into bins while the ``with`` block runs.

        with padenet.InputHistogram(model) as inputs:
            for x, _ in loader:
                model(x)
        padenet.plot(model, inputs=inputs)
        inputs["layer1.act"].counts

    Memory is constant: one row of counts a unit, on the device of its inputs, where they are
    counted too without waiting for the device. Entering again continues the count.

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
        edges = np.linspace(*self.interval, bins + 1)
        self._counters = {unit: Counter(edges) for unit in self.units.values()}
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
        counter = self._counters[self.units[name]]
        below, *inside, above, nan = counter.rows[0].tolist()
        return Histogram(counter.edges.copy(), np.array(inside), below, above, nan)

    def _count(self, unit: PAU, args: tuple[Tensor, ...], kwargs: dict[str, Tensor]) -> None:
        x = args[0] if args else kwargs["x"]
        self._counters[unit].add(x.detach().reshape(1, -1))
