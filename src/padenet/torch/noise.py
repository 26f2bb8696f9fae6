"""Keys and noise as tensors. What the noise is: ``padenet.core.noise``."""

import math

import torch
from torch import Tensor

from padenet.core.noise import draw


def uniform(key: Tensor, shape: torch.Size, count: int, device: torch.device) -> list[Tensor]:
    """``count`` float64 tensors of ``shape``, the noises of every element, inside (-1, 1)."""
    index = torch.arange(math.prod(shape), device=device).reshape(shape)
    return [v.double() / 4096 - 1 for v in draw(key.to(device), index, count)]


def draw_key(device: torch.device) -> Tensor:
    """A fresh key from torch's own generators, so that ``torch.manual_seed`` repeats it.

    The CPU's, for every device the same; but a CUDA graph, and what ``torch.compile`` may put in
    one, needs a key that is drawn on the device at each replay.
    """
    if device.type == "cuda" and (
        torch.compiler.is_compiling() or torch.cuda.is_current_stream_capturing()
    ):
        return torch.randint(0, 2**63 - 1, (), dtype=torch.int64, device=device)
    return torch.randint(0, 2**63 - 1, (), dtype=torch.int64)
