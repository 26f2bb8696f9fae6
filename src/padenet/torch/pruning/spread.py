"""Zeros in the places of removed filters."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn


class Spread(nn.Module):
    """Puts the channels of ``x`` at ``places`` among ``width`` channels, zeros at the others.

    It follows the last layer before a sum: the filters are gone from the layers before, and the
    sum keeps its width.
    """

    places: Tensor

    def __init__(self, places: Iterable[int], width: int, *, device: torch.device | None = None):
        super().__init__()
        self.width = width
        self.put_at(places, device)

    def put_at(self, places: Iterable[int], device: torch.device | None = None) -> None:
        """Numbers, and a tensor of them that moves with the model and is no part of its state."""
        self.at = tuple(places)
        near = "cpu" if device is None or device.type == "meta" else device  # meta keeps no numbers
        index = torch.tensor(self.at, dtype=torch.int64, device=near)
        self.register_buffer("places", index, persistent=False)

    def _apply(self, fn: Any, recurse: bool = True) -> "Spread":
        super()._apply(fn, recurse)
        self.put_at(self.at, self.places.device)  # to_empty() would leave any numbers in it
        return self

    def forward(self, x: Tensor) -> Tensor:
        batch, places = x.shape[0], x.shape[2:]
        if x.ndim == 4 and x.stride(1) == 1:  # channels last: keeps the layout
            y = x.new_zeros(batch, *places, self.width).permute(0, 3, 1, 2)
        else:
            y = x.new_zeros(batch, self.width, *places)
        return y.index_copy_(1, self.places.to(x.device), x)

    def extra_repr(self) -> str:
        return f"{len(self.at)} of {self.width}"
