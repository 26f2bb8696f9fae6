"""What each kind of layer does with channels, and how it is shortened."""

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn

from padenet.torch.baselines import APL, Maxout, SReLU
from padenet.torch.nn import PAU
from padenet.torch.pruning.record import Cut, Kept
from padenet.torch.pruning.spread import Spread
from padenet.torch.registry import ACTIVATIONS

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
NORMS = (
    *(nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm),
    *(nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d),
)
POOLS = (
    *(nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d),
    *(nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d),
    *(nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d),
    *(nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d, nn.AdaptiveMaxPool3d),
)
PADS = (
    *(nn.ConstantPad1d, nn.ConstantPad2d, nn.ConstantPad3d),  # ZeroPad2d is one
    *(nn.ReflectionPad1d, nn.ReflectionPad2d, nn.ReflectionPad3d),
    *(nn.ReplicationPad1d, nn.ReplicationPad2d, nn.ReplicationPad3d),
    *(nn.CircularPad1d, nn.CircularPad2d, nn.CircularPad3d),
)
DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout)
MORE_ACTIVATIONS = (nn.Hardsigmoid, nn.Hardtanh, nn.LogSigmoid, nn.Softsign, nn.Tanhshrink)
SAME = (*POOLS, *DROPOUTS, *MORE_ACTIVATIONS, nn.Identity, nn.Upsample)
PLAIN = (*CONVOLUTIONS, *TRANSPOSED, *NORMS, nn.Linear)
KEEP_ZERO = (
    *(nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.RReLU, nn.ELU, nn.CELU, nn.SELU, nn.SiLU, nn.GELU),
    *(nn.Mish, nn.Tanh, nn.Hardswish, nn.PReLU, nn.Identity, nn.Upsample),
    *(*POOLS, *PADS, *DROPOUTS),
)

Kind = Literal[
    "filters",  # new channels of its own from all that come in
    "depthwise",  # each channel from one that comes in
    "reader",  # takes channels in, gives none that could go
    "channelwise",  # parameters for each channel
    "grouped",  # parameters for each of several equal parts of the channels
    "elementwise",  # the same to each channel
    "maxout",
    "flatten",
    "spread",
]


def kind_of(module: nn.Module, x: Tensor) -> Kind | str:
    """What ``module`` does with the channels, dim 1 of ``x``; or a reason why that is unknown."""
    channels = x.shape[1] if x.ndim > 1 else 0
    weight = getattr(module, "weight", None)
    if isinstance(weight, Tensor) and module._parameters.get("weight") is not weight:
        return "has a weight that is computed from others. Make it a plain parameter first"
    if any(isinstance(module, kind) and _differs(type(module), kind) for kind in PLAIN):
        return f"is a {type(module).__name__} with a forward of its own"
    if isinstance(module, CONVOLUTIONS):
        if x.ndim < module.weight.ndim:
            return "is given an image without a batch. Let the example have one: image[None]"
        if module.groups == 1:
            return "filters"
        if module.groups == module.in_channels:
            return "depthwise"
        return f"has groups={module.groups}, which share out the channels that come in"
    if isinstance(module, TRANSPOSED):
        if module.groups == 1:
            return "reader"
        return f"has groups={module.groups}, which share out the channels that come in"
    if isinstance(module, nn.Linear):
        return "reader" if x.ndim == 2 else "acts on the last dim, which is not that of channels"
    if isinstance(module, (PAU, APL, SReLU)):
        per_layer = isinstance(module, PAU) and module.groups == 1
        if not per_layer and module.channel_dim % x.ndim != 1:
            return f"has its parameters in dim {module.channel_dim}, not in that of the channels"
        if isinstance(module, PAU) and module.groups < channels:
            return "elementwise" if per_layer else "grouped"
        return "elementwise" if per_layer else "channelwise"
    if isinstance(module, nn.PReLU):
        return "elementwise" if module.num_parameters == 1 else "channelwise"
    if isinstance(module, Maxout):
        return "maxout" if module.channel_dim % x.ndim == 1 else "takes no maximum of channels"
    if isinstance(module, Spread):
        return "spread"
    if isinstance(module, nn.Flatten):
        return "flatten"
    if isinstance(module, NORMS):
        return "channelwise"
    if isinstance(module, PADS):
        dims = len(module.padding) // 2  # the last ones
        return "elementwise" if dims <= x.ndim - 2 else "pads the dim of channels too"
    if isinstance(module, (*SAME, *_activations())):
        return "elementwise"
    return f"is a {type(module).__name__}, which may mix channels"


def is_function(module: nn.Module) -> bool:
    """Whether it is somebody's own function as a module, whose forward can be followed."""
    own = not type(module).__module__.startswith(("torch.", "padenet."))
    return own and not module._parameters and not module._buffers


def may_have_channels(module: nn.Module) -> bool:
    """Whether its parameters may be those of channels: not of one unit for a whole layer."""
    if isinstance(module, (PAU, nn.PReLU)):
        return (module.groups if isinstance(module, PAU) else module.num_parameters) > 1
    several = any(p.numel() > 1 for p in module.parameters(recurse=False))
    return several and (isinstance(module, (APL, SReLU)) or not isinstance(module, _activations()))


def keeps_zero(module: nn.Module) -> bool:
    """Whether an elementwise layer gives zeros alone for zeros; a padding may put others there."""
    known = any(isinstance(module, k) and not _differs(type(module), k) for k in KEEP_ZERO)
    return known and not getattr(module, "value", 0)


def _differs(kind: type[nn.Module], base: type[nn.Module]) -> bool:
    """Whether a subclass computes something else, say with standardised weights."""
    names = ("forward", "_conv_forward")
    return any(getattr(kind, n, None) is not getattr(base, n, None) for n in names)


def cut_layer(module: nn.Module, cut: Cut) -> None:
    """Leave of a layer what ``cut`` keeps, in place."""
    if isinstance(module, (*CONVOLUTIONS, *TRANSPOSED, nn.Linear)):
        _cut_weights(module, cut)
    elif isinstance(module, Spread):
        if cut.inputs:
            module.put_at((module.at[i] for i in cut.inputs.places), module.places.device)
    elif cut.outputs:
        for kind, change in CHANNELWISE.items():
            if isinstance(module, kind):
                change(module, cut.outputs)


def _cut_weights(module: Any, cut: Cut) -> None:
    depthwise = getattr(module, "groups", 1) > 1
    if cut.outputs:
        _check(module, "filters", module.out_channels, cut.outputs)
        _take(module, cut.outputs, "weight", "bias")
        module.out_channels = len(cut.outputs.places)
    if cut.inputs:
        name = "in_features" if isinstance(module, nn.Linear) else "in_channels"
        _check(module, name, getattr(module, name), cut.inputs)
        setattr(module, name, len(cut.inputs.places))
        if depthwise:
            module.groups = len(cut.inputs.places)
        else:
            _take(module, cut.inputs, "weight", dim=0 if isinstance(module, TRANSPOSED) else 1)


def _cut_norm(module: Any, kept: Kept) -> None:
    _check(module, "num_features", module.num_features, kept)
    _take(module, kept, "weight", "bias", "running_mean", "running_var")
    module.num_features = len(kept.places)


def _cut_prelu(module: Any, kept: Kept) -> None:
    if module.num_parameters > 1:
        _check(module, "num_parameters", module.num_parameters, kept)
        _take(module, kept, "weight")
        module.num_parameters = len(kept.places)


def _cut_unit(module: PAU, kept: Kept) -> None:
    if module.groups != kept.of:  # one unit, or equal parts that lose as many channels each
        return
    alone = len(kept.places) == 1
    _take(module, kept, "a", "b", squeeze=alone)
    module.groups = len(kept.places)
    if isinstance(module.init, tuple):  # one start for each unit, as for a PReLU that was converted
        starts = (torch.as_tensor(c) for c in module.init)
        a, b = (c[list(kept.places)] if c.ndim == 2 else c for c in starts)
        module.init = (a[0], b[0]) if alone and a.ndim == 2 else (a, b)


def _cut_apl(module: APL, kept: Kept) -> None:
    _check(module, "channels", module.channels, kept)
    _take(module, kept, "slopes", "points", dim=1)
    module.channels = len(kept.places)


def _cut_srelu(module: SReLU, kept: Kept) -> None:
    _check(module, "channels", module.channels, kept)
    _take(module, kept, "t_l", "a_l", "t_r", "a_r")
    module.channels = len(kept.places)


CHANNELWISE: dict[type[nn.Module] | tuple[type[nn.Module], ...], Callable[[Any, Kept], None]] = {
    NORMS: _cut_norm,
    nn.PReLU: _cut_prelu,
    PAU: _cut_unit,
    APL: _cut_apl,
    SReLU: _cut_srelu,
}


def _take(module: nn.Module, kept: Kept, *names: str, dim: int = 0, squeeze: bool = False) -> None:
    """Parameters and buffers of those names at the places alone; what is None stays."""
    for name in names:
        old = getattr(module, name)
        if old is None:
            continue
        places = torch.tensor(kept.places, dtype=torch.int64, device=old.device)
        new = old.detach().index_select(dim, places)
        if new.ndim == 4 and old.is_contiguous(memory_format=torch.channels_last):
            new = new.contiguous(memory_format=torch.channels_last)
        new = new[0].clone() if squeeze else new
        if isinstance(old, nn.Parameter):
            new = nn.Parameter(new, requires_grad=old.requires_grad)
        setattr(module, name, new)


def _check(module: nn.Module, what: str, number: int, kept: Kept) -> None:
    if number != kept.of:
        raise ValueError(
            f"{type(module).__name__} has {number} {what}, and the pruning is for {kept.of}. "
            "Apply it to a model built like the one it was made from."
        )


def _activations() -> tuple[type[nn.Module], ...]:
    """Looked up anew, because a user may add some."""
    return tuple(make for make in ACTIVATIONS.values() if isinstance(make, type))
