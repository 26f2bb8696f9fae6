"""Augmentation and normalisation of whole batches, on the device they are on.

Shapes depend on the arguments alone and nothing waits for the device, so all of it can be
captured in a CUDA graph. An image's part in chance is a row of uniform numbers from [0, 1):
drawn from a generator, or given, as for a graph that reads them from a fixed buffer.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from padenet.core import unknown

PAD = 4
DEGREES = 30


class Augmentation(NamedTuple):
    draws: int
    apply: Callable[[Tensor, Tensor], Tensor]


def augment(
    images: Tensor,
    kind: str,
    generator: torch.Generator | None = None,
    *,
    draws: Tensor | None = None,
) -> Tensor:
    """The batch with each image changed at random, uint8 as before.

    - "none": unchanged.
    - "crop-flip": shifted by up to 4 pixels each way, black beyond the border; flipped
      horizontally half the time.
    - "rotate": turned by up to 30° each way about the centre, bilinear, black beyond the border.

    Args:
        images: uint8 (N, C, H, W).
        kind: A name in ``AUGMENTATIONS``.
        generator: On the device of the images; by default torch's own.
        draws: In place of a generator: uniform numbers from [0, 1), one row an image, as many
            columns as ``AUGMENTATIONS[kind].draws``.
    """
    if kind not in AUGMENTATIONS:
        raise unknown("augmentation", kind, AUGMENTATIONS)
    _check(images)
    columns, apply = AUGMENTATIONS[kind]
    shape = (len(images), columns)
    if draws is None:
        draws = torch.rand(shape, generator=generator, device=images.device)
    elif draws.shape != shape:
        raise ValueError(f"draws has shape {tuple(draws.shape)}, but {kind!r} needs {shape}.")
    return apply(images, draws)


def normalise(
    images: Tensor,
    mean: Sequence[float] | Tensor,
    std: Sequence[float] | Tensor,
    dtype: torch.dtype = torch.float32,
    channels_last: bool = False,
) -> Tensor:
    """(images / 255 - mean) / std for uint8 (N, C, H, W), mean and std one per channel.

    The arithmetic is float32 at least and rounded to ``dtype`` at the end.
    """
    _check(images)
    exact = torch.promote_types(dtype, torch.float32)
    m, s = (_per_channel(values, images, exact) for values in (mean, std))
    layout = torch.channels_last if channels_last else torch.contiguous_format
    # A new tensor, so that a single channel has the strides of the layout too: convolutions look.
    x = images.to(exact, memory_format=layout, copy=True)
    return x.sub_(m * 255).div_(s * 255).to(dtype)


def _check(images: Tensor) -> None:
    if images.dtype != torch.uint8 or images.ndim != 4:
        raise TypeError(
            f"images must be uint8 (N, C, H, W), not {images.dtype} of shape {tuple(images.shape)}."
        )


def _per_channel(values: Sequence[float] | Tensor, images: Tensor, dtype: torch.dtype) -> Tensor:
    if len(values) != images.shape[1]:
        raise ValueError(f"{len(values)} means or stds for images of {images.shape[1]} channels.")
    if isinstance(values, Tensor):
        return values.to(images.device, dtype).view(1, -1, 1, 1)
    # filled on the device: a copy from the host could not be captured
    filled = [torch.full((1, 1, 1, 1), v, dtype=dtype, device=images.device) for v in values]
    return torch.cat(filled, 1)


def _same(images: Tensor, u: Tensor) -> Tensor:
    return images


def _crop_flip(images: Tensor, u: Tensor) -> Tensor:
    n, c, h, w = images.shape
    offsets = (u[:, :2] * (2 * PAD + 1)).long().clamp_(0, 2 * PAD)
    i, j = (torch.arange(size, device=images.device) for size in (h, w))
    j = torch.where(u[:, 2:] < 0.5, w - 1 - j, j)
    rows, columns = offsets[:, :1] + i, offsets[:, 1:] + j
    index = rows.view(n, h, 1) * (w + 2 * PAD) + columns.view(n, 1, w)
    padded = F.pad(images, (PAD, PAD, PAD, PAD)).flatten(2)
    return padded.gather(2, index.view(n, 1, h * w).expand(n, c, h * w)).view(n, c, h, w)


def _rotate(images: Tensor, u: Tensor) -> Tensor:
    h, w = images.shape[2:]
    angle = (2 * u.float() - 1).view(-1, 1, 1) * math.radians(DEGREES)
    cos, sin = angle.cos(), angle.sin()
    # affine_grid would multiply matrices, in TF32 where that is on: elementwise is exact
    y, x = (torch.arange(size, device=images.device) - (size - 1) / 2 for size in (h, w))
    y = y.view(h, 1)
    grid = torch.stack([(cos * x - sin * y) * (2 / w), (sin * x + cos * y) * (2 / h)], -1)
    turned = F.grid_sample(images.float(), grid, padding_mode="zeros", align_corners=False)
    return turned.round_().to(torch.uint8)


AUGMENTATIONS: dict[str, Augmentation] = {
    "none": Augmentation(0, _same),
    "crop-flip": Augmentation(3, _crop_flip),
    "rotate": Augmentation(1, _rotate),
}
