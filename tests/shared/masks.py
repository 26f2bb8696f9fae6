"""Whole nets with masks: what a pruned net must give, by another way.

The mask of a convolution is multiplied on after its batch normalisation and activation, by hooks
at places that are written down here for each net.
"""

import copy
import re

import torch
from torch import nn

from padenet.torch.baselines import Maxout


def masked(net, name, pruning):
    """A copy of ``net``, one of ``NETS`` by name, without a trace of the filters that are gone."""
    net = copy.deepcopy(net)
    masks = {conv: _mask(net, conv, kept) for conv, kept in pruning.filters.items()}
    if name == "densenet121":
        _mask_readers(net, masks)
    else:
        for conv, mask in masks.items():
            _after(net.get_submodule(_end(net, name, conv)), mask)
    return net


def shake(net, seed=0):
    """Random statistics and parameters, so that no removed filter is harmless by being at rest."""
    draw = torch.Generator().manual_seed(seed)

    def noise(t):
        return torch.randn(t.shape, generator=draw, dtype=torch.float64).to(t.dtype)

    with torch.no_grad():
        for module in net.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.running_mean += 0.3 * noise(module.running_mean)
                module.running_var *= torch.exp(0.3 * noise(module.running_var))
                module.bias += 0.3 * noise(module.bias)
            elif not isinstance(module, (nn.Conv2d, nn.Linear)):
                for p in module.parameters(recurse=False):
                    p += 0.02 * noise(p)
    return net.eval()


def _mask(net, conv, kept):
    mask = torch.zeros(kept.of, dtype=torch.float64)
    mask[list(kept.places)] = 1
    holder = net.get_submodule(conv.rpartition(".")[0])
    number = re.search(r"\d+$", conv)
    act = f"act{number[0]}" if holder is net and number else "act"
    if isinstance(getattr(holder, act, None), Maxout) and not _inner(holder, conv):
        assert torch.equal(mask[::2], mask[1::2]), f"{conv}: a pair of Maxout is torn"
        return mask[::2]
    return mask


def _inner(holder, conv):
    """The first of two convolutions in a block of vgg, which has no activation."""
    return conv.endswith("conv1") and hasattr(holder, "conv2") and hasattr(holder, "pool")


def _end(net, name, conv):
    """The last of convolution, batch normalisation and activation."""
    if name == "lenet":
        return conv.replace("conv", "act")
    holder = conv.rpartition(".")[0]
    if _inner(net.get_submodule(holder), conv):
        return conv
    names = [n for n, _ in net.get_submodule(holder).named_children() if n in ("bn", "act")]
    return f"{holder}.{names[-1]}"


def _after(module, mask):
    shape = (1, -1, 1, 1)
    module.register_forward_hook(lambda m, i, y: y * mask.to(y.dtype).reshape(shape))


def _before(module, mask):
    def hook(m, inputs):
        (x,) = inputs
        return x * mask.to(x.dtype).reshape(1, -1, *[1] * (x.ndim - 2))

    module.register_forward_pre_hook(hook)


def _mask_readers(net, masks):
    """In densenet121 the units of the readers come after the concatenation."""
    features = masks["stem"]
    for name, layer in net.named_children():
        if name.startswith("block"):
            _before(layer.reduce.conv, features)
            _before(layer.grow.conv, masks[f"{name}.reduce.conv"])
            features = torch.cat([features, masks[f"{name}.grow.conv"]])
        elif name.startswith("transition"):
            _before(layer.conv, features)
            features = masks[f"{name}.conv"]
    _before(net.fc, features)
