"""What the nets are made of: units by name, convolutions with them, sums, the check of the input.

Maxout is the one activation that changes the layer before it: that layer makes ``act.pieces``
channels for each one wanted, and batch normalisation comes after the maximum instead of before.
"""

from collections import OrderedDict
from typing import Any

from torch import Tensor, nn

from padenet import make_activation


class ActivationMaker:
    """Makes the units of a net: ``act(channels)`` is a new one each time.

    ``pieces`` is how many channels go in for one that comes out: 2 for Maxout, else 1.
    """

    def __init__(self, name: str, **options: Any):
        self.name, self.options = name, options
        self.pieces: int = options.get("pieces", 2) if name == "maxout" else 1

    def __call__(self, channels: int) -> nn.Module:
        return make_activation(self.name, channels, **self.options)


def named(**modules: nn.Module) -> nn.Sequential:
    """The modules one after the other, with names in the state dict instead of numbers."""
    return nn.Sequential(OrderedDict(modules))


def conv_bn(c_in: int, c_out: int, kernel: int, *, stride: int = 1) -> nn.Sequential:
    """A convolution that keeps the size at stride 1, and batch normalisation."""
    conv = nn.Conv2d(c_in, c_out, kernel, stride, kernel // 2, bias=False)
    return named(conv=conv, bn=nn.BatchNorm2d(c_out))


def conv_bn_act(
    c_in: int,
    c_out: int,
    kernel: int,
    act: ActivationMaker,
    *,
    stride: int = 1,
    groups: int = 1,
    bias: bool = False,
) -> nn.Sequential:
    """The same with a unit: conv → BN → unit, for Maxout conv → max → BN."""
    width = act.pieces * c_out
    conv = nn.Conv2d(c_in, width, kernel, stride, kernel // 2, groups=groups, bias=bias)
    unit, bn = act(c_out), nn.BatchNorm2d(c_out)
    if act.pieces > 1:
        return named(conv=conv, act=unit, bn=bn)
    return named(conv=conv, bn=bn, act=unit)


class Residual(nn.Module):
    """``act(path(x) + shortcut(x))``; without them, the identity."""

    def __init__(
        self, path: nn.Module, shortcut: nn.Module | None = None, act: nn.Module | None = None
    ):
        super().__init__()
        self.path = path
        self.shortcut = nn.Identity() if shortcut is None else shortcut
        self.act = nn.Identity() if act is None else act

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.path(x) + self.shortcut(x))


class Images(nn.Module):
    """Lets images ``(N, channels, size, size)`` pass and refuses the rest; without size, any."""

    def __init__(self, net: str, channels: int, size: int | None):
        super().__init__()
        self.net, self.channels, self.size = net, channels, size

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1:] == (self.channels, *(self.size or s for s in x.shape[2:])) and x.ndim == 4:
            return x
        size = self.size or "any"
        fix = "Pad or resize the images"
        if x.ndim == 4 and x.shape[1] != self.channels:
            fix = f"Build the net with in_channels={x.shape[1]}"
        raise ValueError(
            f"{self.net} takes images (N, {self.channels}, {size}, {size}), got x of shape "
            f"{tuple(x.shape)}. {fix}."
        )

    def extra_repr(self) -> str:
        return f"{self.channels} × {self.size or 'any'}"
