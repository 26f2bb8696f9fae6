"""What functions and operators between layers do with channels."""

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from torch import Tensor

from padenet.torch.functional import rational
from padenet.torch.pruning.channels import STAYS, Channels, whole

SAME = {  # each channel by itself, and zeros give zeros
    *("relu", "relu6", "leaky_relu", "elu", "celu", "selu", "gelu", "silu", "mish", "tanh"),
    *("hardswish", "abs", "neg", "square", "sqrt", "tanhshrink", "softsign"),
    *(
        "expand",
        "dropout",
        "dropout1d",
        "dropout2d",
        "dropout3d",
        "alpha_dropout",
        "feature_dropout",
    ),
    *("avg_pool1d", "avg_pool2d", "avg_pool3d", "max_pool1d", "max_pool2d", "max_pool3d"),
    *("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d"),
    *("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d", "interpolate"),
    *("clone", "contiguous", "detach", "to", "float", "half", "double", "bfloat16", "type_as"),
}
ALIVE = {"sigmoid", "hardsigmoid", "softplus", "logsigmoid", "exp", "cos", "clamp"}  # not zeros
SHAPES = {"flatten", "view", "reshape", "squeeze", "unsqueeze"}
ALIASES = {
    **{"iadd": "add", "radd": "add", "sub": "add", "isub": "add", "rsub": "add", "subtract": "add"},
    **{"imul": "mul", "rmul": "mul", "multiply": "mul", "concat": "cat", "concatenate": "cat"},
}


def operation(function: Any) -> str:
    name = str(getattr(function, "__name__", function)).strip("_")
    return ALIASES.get(name, name)


def in_rational() -> bool:
    """Whether ``rational`` is computed: elementwise, whatever its backend does for it."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_code is rational.__code__:
            return True
    return False


def tensors_in(value: Any) -> Iterator[Tensor]:
    """All tensors among arguments or results, at any depth."""
    return (x for x in leaves_in(value) if isinstance(x, Tensor))


def leaves_in(value: Any) -> Iterator[Any]:
    """What tuples, lists, mappings and dataclasses hold in the end."""
    if isinstance(value, Mapping):
        yield from leaves_in(list(value.values()))
    elif isinstance(value, (tuple, list)):
        for v in value:
            yield from leaves_in(v)
    elif is_dataclass(value) and not isinstance(value, type):
        yield from leaves_in([getattr(value, f.name) for f in fields(value)])
    else:
        yield value


def dims_in(args: Any, kwargs: Any, default: Any) -> Any:
    """The second argument of ``cat`` and ``mean``, which has two names."""
    return kwargs.get("dim", kwargs.get("axis", args[1] if len(args) > 1 else default))


def adds_zero(args: Any) -> bool:
    """Whether one of the two that are added or subtracted is the number 0."""
    return len(args) == 2 and any(type(v) in (int, float) and v == 0 for v in args)


def alike(name: str, x: Channels, before: Tensor, after: Tensor) -> Channels | None:
    """The channels after a function of one tensor, or None if it is unknown."""
    same_channels = after.ndim > 1 and after.shape[:2] == before.shape[:2]
    if name in SHAPES:
        return reshaped(x, before, after)
    if name == "expand" and after.ndim == before.ndim and before.shape[1] == 1:
        return whole(after, x.visible)  # of a single filter, which never goes
    if name in SAME and same_channels:
        return x
    if name in ("div", "truediv", "pow") and after.shape == before.shape:
        return x.with_source(None)
    if name in ALIVE and same_channels:
        return x.with_source(None)
    return None


def reshaped(x: Channels, before: Tensor, after: Tensor) -> Channels | None:
    """``(N, C, ...)`` to ``(N, C, ...)`` or ``(N, C · ...)``."""
    if after.ndim < 2 or after.shape[0] != before.shape[0]:
        return None
    if after.shape[1] == before.shape[1]:
        return x
    if after.ndim == 2:
        times = after.shape[1] // before.shape[1]
        return Channels(np.repeat(x.lanes, times), x.visible)
    return None


def averaged(x: Channels, before: Tensor, after: Tensor, dims: Any) -> Channels | None:
    """The mean over places, which leaves batch and channels."""
    dims = dims if isinstance(dims, (tuple, list)) else (dims,)
    known = all(isinstance(d, int) and d % before.ndim > 1 for d in dims)
    return x if known and after.ndim > 1 else None


def padded(
    x: Channels, input: Tensor, pad: Any, mode: str = "constant", value: float | None = None
) -> Channels | None:
    """The channels of ``F.pad``, if it pads places alone."""
    if len(pad) > 2 * (input.ndim - 2):
        return None
    return x.with_source(None) if value else x


def clipped(
    x: Channels, input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Channels:
    """The channels of ``F.hardtanh``."""
    return x if min_val <= 0 <= max_val else x.with_source(None)


WITH_ARGUMENTS: dict[str, Callable[..., Channels | None]] = {"pad": padded, "hardtanh": clipped}


def meets_alike(x: Tensor, y: Tensor) -> bool:
    """Whether ``x``, in a sum or product that gives ``y``, is the same for all channels."""
    place = x.ndim - y.ndim + 1  # of the dim that meets them
    return place < 0 or x.shape[place] == 1


def joined(parts: list[tuple[Tensor, Channels | None]], dim: Any) -> Channels | None:
    """The channels of ``cat``."""
    if not isinstance(dim, int) or dim % parts[0][0].ndim != 1:
        return None
    lanes = [np.full(t.shape[1], STAYS, dtype=np.int64) if c is None else c.lanes for t, c in parts]
    visible = frozenset[str]().union(*(c.visible for _, c in parts if c is not None))
    return Channels(np.concatenate(lanes), visible)
