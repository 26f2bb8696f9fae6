"""The networks of the paper, and small ones, each with any activation: ``build("vgg8", "pau")``.

A file has a net, or variants of one; small.py has those that train in seconds, and blocks.py what
nets are made of. A new net is its function and its line of ``NETS``. ``python -m padenet.lab.nets``
prints their sizes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from padenet.core import unknown
from padenet.lab.nets.blocks import ActivationMaker, Images, named
from padenet.lab.nets.densenet import densenet121
from padenet.lab.nets.lenet import lenet
from padenet.lab.nets.mobilenet import mobilenetv2, mobilenetv2_imagenet
from padenet.lab.nets.resnet import resnet101
from padenet.lab.nets.small import conv, conv_norm, gru, mlp, vit
from padenet.lab.nets.vgg import vgg, vgg8

__all__ = ["NETS", "Net", "build", "count_multiplications", "count_parameters"]


@dataclass(frozen=True)
class Net:
    """A net and the images it is for: ``(N, channels, size, size)``, of ``classes`` kinds."""

    make: Callable[[ActivationMaker, int, int], nn.Sequential]
    channels: int = 3
    size: int = 32
    classes: int = 10
    any_size: bool = False


NETS = {
    "lenet": Net(lenet, channels=1),
    "vgg": Net(vgg, channels=1),
    "vgg8": Net(vgg8),
    "mobilenetv2": Net(mobilenetv2),
    "resnet101": Net(resnet101),
    "densenet121": Net(densenet121),
    "mobilenetv2-imagenet": Net(mobilenetv2_imagenet, size=224, classes=1000, any_size=True),
    "mlp": Net(mlp, channels=1),
    "conv": Net(conv, channels=1),
    "conv-norm": Net(conv_norm, channels=1),
    "vit": Net(vit, channels=1),
    "gru": Net(gru, channels=1),
}


def build(
    name: str,
    activation: str,
    *,
    classes: int | None = None,
    in_channels: int | None = None,
    **options: Any,
) -> nn.Sequential:
    """A net with new weights, in which each place of the activation has a unit of its own.

    A seed gives the same weights whatever the activation, unless Maxout changes their shapes.

    Args:
        name: A name from ``NETS``.
        activation: A name from ``padenet.torch.registry.ACTIVATIONS``.
        classes: Number of outputs; that of ``NETS`` unless given.
        in_channels: Channels of the images; likewise.
        options: For the activation, as in ``padenet.make_activation``.
    """
    if name not in NETS:
        raise unknown("net", name, NETS)
    net = NETS[name]
    channels = net.channels if in_channels is None else in_channels
    outputs = net.classes if classes is None else classes
    for what, number in (("in_channels", channels), ("classes", outputs)):
        if number < 1:
            raise ValueError(f"{what}={number} must be at least 1.")
    model = net.make(ActivationMaker(activation, **options), channels, outputs)
    check = Images(name, channels, None if net.any_size else net.size)
    return named(input=check, **dict(model.named_children()))


def count_parameters(name: str, activation: str, **options: Any) -> int:
    """Without memory for them; arguments as for ``build``."""
    return sum(p.numel() for p in _on_meta(name, activation, **options).parameters())


def count_multiplications(name: str, activation: str = "relu", **options: Any) -> int:
    """Those of one image in convolutions and linear layers; arguments as for ``build``."""
    model, total = _on_meta(name, activation, **options).eval(), 0

    def count(layer: nn.Module, inputs: Any, output: torch.Tensor) -> None:
        nonlocal total
        weight: Any = layer.weight
        total += output[0].numel() * weight[0].numel()

    for module in model.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            module.register_forward_hook(count)
    images: Any = model.input
    size = NETS[name].size
    with torch.no_grad():
        model(torch.empty(1, images.channels, size, size, device="meta"))
    return total


def _on_meta(name: str, activation: str, **options: Any) -> nn.Sequential:
    with torch.device("meta"):
        return build(name, activation, **options)
