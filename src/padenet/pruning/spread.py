"""Zeros in the places of removed filters."""

from collections.abc import Iterable

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
        index = torch.tensor(list(places), dtype=torch.int64, device=device)
        self.register_buffer("places", index, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        batch, places = x.shape[0], x.shape[2:]
        if x.ndim == 4 and x.is_contiguous(memory_format=torch.channels_last):
            y = x.new_zeros(batch, *places, self.width).permute(0, 3, 1, 2)  # keeps the layout
        else:
            y = x.new_zeros(batch, self.width, *places)
        return y.index_copy_(1, self.places, x)

    def extra_repr(self) -> str:
        return f"{len(self.places)} of {self.width}"
