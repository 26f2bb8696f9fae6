"""VGG with five units: the paper's net for MNIST, and its VGG-8 for CIFAR-10."""

from torch import nn

from padenet.lab.nets.blocks import ActivationMaker, conv_bn_act, named

BLOCKS = ((64, 1), (128, 1), (256, 2), (512, 2), (512, 2))
"""Width and number of convolutions of each block of ``vgg``."""


def vgg(
    act: ActivationMaker, channels: int, classes: int, widths: tuple[tuple[int, int], ...] = BLOCKS
) -> nn.Sequential:
    """As the paper's table has it: one unit a block, none between the two convolutions."""
    blocks: dict[str, nn.Module] = {}
    for i, (width, count) in enumerate(widths, 1):
        layers: dict[str, nn.Module] = {}
        for j in range(1, count + 1):
            made = act.pieces * width if j == count else width
            layers[f"conv{j}"] = nn.Conv2d(channels, made, 3, padding=1)
            channels = width
        blocks[f"block{i}"] = named(**layers, act=act(width), pool=nn.MaxPool2d(2))
    return named(**blocks, flatten=nn.Flatten(), fc=nn.Linear(channels, classes))


def vgg8(act: ActivationMaker, channels: int, classes: int) -> nn.Sequential:
    """Five times conv → BN → unit → pool."""
    blocks: dict[str, nn.Module] = {}
    for i, width in enumerate((64, 128, 256, 512, 512), 1):
        block = conv_bn_act(channels, width, 3, act, bias=True)
        block.add_module("pool", nn.MaxPool2d(2))
        blocks[f"block{i}"] = block
        channels = width
    return named(**blocks, flatten=nn.Flatten(), fc=nn.Linear(512, classes))
