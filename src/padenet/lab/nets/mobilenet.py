"""MobileNetV2 (Sandler et al., 2018): the common CIFAR variant, and the one for ImageNet.

With Maxout the stem, the expansions, the depthwise convolutions and the last one make twice the
channels, without bias; projections and shortcuts, which have no unit, stay.
"""

from torch import nn

from padenet.lab.nets.blocks import ActivationMaker, Residual, conv_bn, conv_bn_act, named

STAGES = (
    (1, 16, 1),
    (6, 24, 2),
    (6, 32, 3),
    (6, 64, 4),
    (6, 96, 3),
    (6, 160, 3),
    (6, 320, 1),
)
"""Expansion, width and number of blocks; the first block of a stage may have stride 2."""


def mobilenetv2(act: ActivationMaker, channels: int, classes: int) -> nn.Sequential:
    """For 32 × 32: three strides instead of five, and all 17 blocks alike in having an expansion
    and, at stride 1, a shortcut."""
    return named(
        **_features(act, channels, strides=(1, 1, 1, 2, 2, 1, 2, 1), alike=True),
        pool=nn.AvgPool2d(4),
        flatten=nn.Flatten(),
        fc=nn.Linear(1280, classes),
    )


def mobilenetv2_imagenet(act: ActivationMaker, channels: int, classes: int) -> nn.Sequential:
    """For 224 × 224, as in torchvision: no expansion by 1, no shortcut between unequal widths."""
    return named(
        **_features(act, channels, strides=(2, 1, 2, 2, 2, 1, 2, 1), alike=False),
        pool=nn.AdaptiveAvgPool2d(1),
        flatten=nn.Flatten(),
        dropout=nn.Dropout(0.2),
        fc=nn.Linear(1280, classes),
    )


def _features(
    act: ActivationMaker, channels: int, strides: tuple[int, ...], alike: bool
) -> dict[str, nn.Module]:
    layers: dict[str, nn.Module] = {
        "stem": conv_bn_act(channels, 32, 3, act, stride=strides[0]),
    }
    c_in = 32
    for i, (expansion, c_out, count) in enumerate(STAGES, 1):
        for j in range(1, count + 1):
            stride = strides[i] if j == 1 else 1
            layers[f"block{i}_{j}"] = _block(c_in, c_out, expansion, stride, act, alike)
            c_in = c_out
    layers["last"] = conv_bn_act(c_in, 1280, 1, act)
    return layers


def _block(
    c_in: int, c_out: int, expansion: int, stride: int, act: ActivationMaker, alike: bool
) -> nn.Module:
    wide = expansion * c_in
    layers: dict[str, nn.Module] = {}
    if alike or expansion > 1:
        layers["expand"] = conv_bn_act(c_in, wide, 1, act)
    layers["depthwise"] = conv_bn_act(wide, wide, 3, act, stride=stride, groups=wide)
    layers["project"] = conv_bn(wide, c_out, 1)
    path = named(**layers)
    if stride > 1 or not (alike or c_in == c_out):
        return path
    return Residual(path, conv_bn(c_in, c_out, 1) if c_in != c_out else None)
