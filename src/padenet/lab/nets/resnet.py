"""ResNet101 (He et al., 2016), the common CIFAR variant: a 3 × 3 stem that keeps the size."""

from torch import nn

from padenet.lab.nets.blocks import ActivationMaker, Residual, conv_bn, conv_bn_act, named

STAGES = ((64, 3, 1), (128, 4, 2), (256, 23, 2), (512, 3, 2))
"""Width, number of blocks and stride of the first of them; a block gives 4 times its width."""


def resnet101(act: ActivationMaker, channels: int, classes: int) -> nn.Sequential:
    """33 blocks of three units each, one of them after the sum, and the stem's: 100."""
    layers: dict[str, nn.Module] = {
        "stem": conv_bn_act(channels, 64, 3, act, bias=act.pieces > 1),
    }
    c_in = 64
    for i, (width, count, first_stride) in enumerate(STAGES, 1):
        for j in range(1, count + 1):
            stride = first_stride if j == 1 else 1
            layers[f"block{i}_{j}"] = _block(c_in, width, stride, act)
            c_in = 4 * width
    return named(**layers, pool=nn.AvgPool2d(4), flatten=nn.Flatten(), fc=nn.Linear(c_in, classes))


def _block(c_in: int, width: int, stride: int, act: ActivationMaker) -> nn.Module:
    """With Maxout, as the paper's count has it: the projection in the shortcut has a unit of its
    own, the sum has none, and what is followed by a unit has a bias."""
    c_out, maxout = 4 * width, act.pieces > 1
    path = named(
        conv1=conv_bn_act(c_in, width, 1, act, bias=maxout),
        conv2=conv_bn_act(width, width, 3, act, stride=stride, bias=maxout),
        conv3=conv_bn(width, c_out, 1),
    )
    shortcut = None
    if c_in != c_out and maxout:
        shortcut = conv_bn_act(c_in, c_out, 1, act, stride=stride, bias=True)
    elif c_in != c_out:
        shortcut = conv_bn(c_in, c_out, 1, stride=stride)
    return Residual(path, shortcut, None if maxout else act(c_out))
