"""Nets that train in seconds on a CPU, one of each kind: for maps of many runs, and for tests."""

import torch
from torch import Tensor, nn

from padenet.lab.nets.blocks import ActivationMaker, Residual, named

SIDE = 8  # pixels a side, or patches a side times two


def mlp(act: ActivationMaker, channels: int, classes: int) -> nn.Sequential:
    """On 8 × 8 pixels."""
    k = act.pieces
    return named(
        pool=nn.AvgPool2d(32 // SIDE),
        flatten=nn.Flatten(),
        fc1=nn.Linear(channels * SIDE**2, k * 64),
        act1=act(64),
        fc2=nn.Linear(64, k * 64),
        act2=act(64),
        fc3=nn.Linear(64, classes),
    )


def conv(act: ActivationMaker, channels: int, classes: int) -> nn.Sequential:
    """Three convolutions without normalisation."""
    k = act.pieces
    return named(
        pool=nn.AvgPool2d(2),
        conv1=_conv(channels, k * 16),
        act1=act(16),
        conv2=_conv(16, k * 32),
        act2=act(32),
        conv3=_conv(32, k * 64),
        act3=act(64),
        flatten=nn.Flatten(),
        fc1=nn.Linear(256, k * 64),
        act4=act(64),
        fc2=nn.Linear(64, classes),
    )


def conv_norm(act: ActivationMaker, channels: int, classes: int) -> nn.Sequential:
    """The same convolutions with batch normalisation."""
    k = act.pieces
    layers: dict[str, nn.Module] = {"pool": nn.AvgPool2d(2)}
    for i, (before, after) in enumerate([(channels, 16), (16, 32), (32, 64)], 1):
        layers[f"conv{i}"] = _conv(before, k * after)
        layers[f"bn{i}"] = nn.BatchNorm2d(k * after)
        layers[f"act{i}"] = act(after)
    return named(
        **layers, mean=nn.AdaptiveAvgPool2d(1), flatten=nn.Flatten(), fc=nn.Linear(64, classes)
    )


def vit(act: ActivationMaker, channels: int, classes: int) -> nn.Sequential:
    """A vision transformer: 16 patches, width 32, two blocks."""
    width = 32
    blocks = {f"block{i}": _block(act, width) for i in (1, 2)}
    return named(
        patches=nn.Conv2d(channels, width, SIDE, SIDE),
        tokens=Tokens(16, width),
        **blocks,
        norm=nn.LayerNorm(width),
        mean=Mean(),
        fc=nn.Linear(width, classes),
    )


def gru(act: ActivationMaker, channels: int, classes: int) -> nn.Sequential:
    """A recurrent net over the rows of 8 × 8 pixels, and a hidden layer after it."""
    return named(
        pool=nn.AvgPool2d(32 // SIDE),
        rows=Rows(),
        gru=LastState(channels * SIDE, 32),
        fc1=nn.Linear(32, act.pieces * 64),
        act=act(64),
        fc2=nn.Linear(64, classes),
    )


def _conv(before: int, after: int) -> nn.Conv2d:
    return nn.Conv2d(before, after, 3, stride=2, padding=1)


def _block(act: ActivationMaker, width: int) -> nn.Sequential:
    attention = named(norm=nn.LayerNorm(width), attention=Attention(width, 2))
    hidden = nn.Linear(width, act.pieces * 2 * width)
    if act.pieces > 1:
        raise ValueError("vit has its channels last, where maxout finds no pairs of them.")
    layers = named(
        norm=nn.LayerNorm(width), fc1=hidden, act=act(2 * width), fc2=nn.Linear(2 * width, width)
    )
    return named(attention=Residual(attention), mlp=Residual(layers))


class Tokens(nn.Module):
    """Patches as a sequence, with what says where they are."""

    def __init__(self, count: int, width: int):
        super().__init__()
        self.position = nn.Parameter(0.02 * torch.randn(1, count, width))

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(2).transpose(1, 2) + self.position


class Attention(nn.Module):
    """Self-attention."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.inner = nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.inner(x, x, x, need_weights=False)[0]
        return y


class Mean(nn.Module):
    """Over the tokens."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(1)


class Rows(nn.Module):
    """The rows of an image as a sequence."""

    def forward(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2).flatten(2)


class LastState(nn.Module):
    """The last state of a GRU."""

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.inner = nn.GRU(width, hidden, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        states: Tensor = self.inner(x)[0]
        return states[:, -1]
