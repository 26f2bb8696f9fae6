"""DenseNet121 (Huang et al., 2017), the common CIFAR variant: a 3 × 3 stem that keeps the size."""

import torch
from torch import Tensor, nn

from padenet.lab.nets.blocks import ActivationMaker, named

BLOCKS = (6, 12, 24, 16)
GROWTH = 32


class DenseLayer(nn.Module):
    """Adds ``GROWTH`` channels to its input."""

    def __init__(self, c_in: int, act: ActivationMaker):
        super().__init__()
        self.reduce = _bn_act_conv(c_in, 4 * GROWTH, 1, act)
        self.grow = _bn_act_conv(4 * GROWTH, GROWTH, 3, act)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.grow(self.reduce(x))], 1)


def densenet121(act: ActivationMaker, channels: int, classes: int) -> nn.Sequential:
    """58 layers of two units, three transitions and the end: 120. The stem has none."""
    if act.pieces > 1:
        raise ValueError(
            "densenet121 has no Maxout: its units come before the convolutions, so no layer could "
            "make the channels for them. The paper has no result for it either."
        )
    width = 2 * GROWTH
    layers: dict[str, nn.Module] = {
        "stem": nn.Conv2d(channels, width, 3, padding=1, bias=False),
    }
    for i, count in enumerate(BLOCKS, 1):
        for j in range(1, count + 1):
            layers[f"block{i}_{j}"] = DenseLayer(width, act)
            width += GROWTH
        if i < len(BLOCKS):
            transition = _bn_act_conv(width, width // 2, 1, act)
            transition.add_module("pool", nn.AvgPool2d(2))
            layers[f"transition{i}"] = transition
            width //= 2
    return named(
        **layers,
        bn=nn.BatchNorm2d(width),
        act=act(width),
        pool=nn.AvgPool2d(4),
        flatten=nn.Flatten(),
        fc=nn.Linear(width, classes),
    )


def _bn_act_conv(c_in: int, c_out: int, kernel: int, act: ActivationMaker) -> nn.Sequential:
    return named(
        bn=nn.BatchNorm2d(c_in),
        act=act(c_in),
        conv=nn.Conv2d(c_in, c_out, kernel, padding=kernel // 2, bias=False),
    )
