"""A model run once, to follow the channels from filters to the layers that read them.

Layers are followed by hooks, functions between them by a torch function mode, so a forward may do
what it likes in Python. Where a tensor meets something that needs all its channels:

    a sum of different filters      the last layer before it spreads: zeros for removed filters
    anything unknown                the filters stay, and so do those that the model gives out

Either changes what comes before it, so the model is run again until nothing new is found.
"""

from collections import Counter
from collections.abc import Container
from typing import Any, get_args

import numpy as np
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from padenet.torch.pruning.channels import (
    STAYS,
    Call,
    Channels,
    Filters,
    Known,
    Lanes,
    Stays,
    whole,
)
from padenet.torch.pruning.functions import (
    WITH_ARGUMENTS,
    adds_zero,
    alike,
    averaged,
    dims_in,
    in_rational,
    joined,
    meets_alike,
    operation,
    reshaped,
    tensors_in,
)
from padenet.torch.pruning.layers import CONVOLUTIONS, Kind, is_function, keeps_zero, kind_of
from padenet.torch.pruning.record import run_once

KINDS = get_args(Kind)
READERS = ("filters", "depthwise", "reader", "spread")
WITH_CHANNELS = (*READERS, "channelwise")  # cut with their channels
OUTPUT = "its filters are the model's output"


class Flow(TorchFunctionMode):
    """What one run of ``model`` shows.

    Args:
        stays: Convolutions that keep their filters; more are found.
        spreads: Layers whose outputs are put back to their places; more are found.
        repeated: Layers that are called more than once.
    """

    def __init__(
        self,
        model: nn.Module,
        stays: dict[str, Stays],
        spreads: set[str],
        repeated: Container[str] = (),
    ):
        super().__init__()
        self.model, self.stays, self.spreads, self.repeated = model, stays, spreads, repeated
        self.times: Counter[str] = Counter()
        self.filters = Filters()
        self.calls: dict[str, Call] = {}
        self.used: set[Tensor] = set()  # parameters that some function was given
        self.even: list[tuple[str, Lanes, int]] = []  # parts that lose as many channels each
        self.depth = 0
        self.known = Known()
        self._channels = self.known.channels_of
        owned = Counter(p for m in model.modules() for p in m._parameters.values() if p is not None)
        self.shared = {p for p, count in owned.items() if count > 1}

    def run(self, example: Tensor | tuple[Any, ...]) -> None:
        names = {m: name for name, m in self.model.named_modules()}
        hooks = []
        for module, name in names.items():
            if isinstance(module, CONVOLUTIONS) or not (
                any(module.children()) or is_function(module)
            ):
                hooks.append(module.register_forward_pre_hook(self._enter))
                hooks.append(module.register_forward_hook(self._leave(name), with_kwargs=True))
        for x in tensors_in(example):
            self._note(x, whole(x))
        try:
            with self:
                given = run_once(self.model, example)
        finally:
            for hook in hooks:
                hook.remove()
        for x in tensors_in(given):
            if found := self._channels(x):
                for name in {*found.visible, *self.filters.owners_of(found.lanes)}:
                    self.stays.setdefault(name, Stays(OUTPUT, True))

    def _note(self, x: Tensor, channels: Channels) -> None:
        for view, before in self.known.note(x, channels):
            self.keep(before.lanes, "it is changed in place through a view of it")
            self.known.note(view, whole(view, before.visible | channels.visible))

    def keep(self, lanes: Lanes, why: str, *, fine: bool = False) -> None:
        """The filters of these channels stay."""
        for name in self.filters.owners_of(lanes):
            self.stays.setdefault(name, Stays(why, fine))

    def _pin(self, x: Channels, why: str) -> None:
        """All channels of ``x`` are needed: zeros for those that go, else they stay."""
        if x.can_go and x.source is not None:
            self.spreads.add(x.source)
        else:
            self.keep(x.lanes, why)

    def _enter(self, module: nn.Module, inputs: Any) -> None:
        self.depth += 1

    def _leave(self, name: str) -> Any:
        def hook(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
            self.depth -= 1
            self.times[name] += 1
            inputs = [x for x in tensors_in((args, kwargs)) if self._channels(x)]
            if not inputs:
                return
            x = self._channels(inputs[0])
            if x is None or len(inputs) > 1 or not isinstance(output, Tensor):
                self._lose(f"{name} takes or gives several tensors", inputs, output)
            else:
                self._note(output, self._layer(name, module, x, inputs[0], output))

        return hook

    def _layer(
        self, name: str, module: nn.Module, x: Channels, before: Tensor, y: Tensor
    ) -> Channels:
        kind = kind_of(module, before)
        if kind not in KINDS and y is before and not [*module.parameters(recurse=False)]:
            return x  # a check of the input, say
        lanes, visible = x.lanes, x.visible
        if any(p in self.shared for p in module.parameters(recurse=False)):
            kind = "has a parameter that another layer has too"
        if kind in ("filters", "depthwise"):
            lanes, visible = self._convolve(name, module, x, kind), frozenset({name})
            visible |= x.visible if kind == "depthwise" else frozenset()
        elif kind == "reader":
            lanes, visible = whole(y).lanes, frozenset()
        elif kind == "grouped":
            self.even.append((name, lanes, int(module.groups)))  # type: ignore[arg-type]
        elif kind == "maxout":
            lanes = self._maximum(name, lanes, int(module.pieces))  # type: ignore[arg-type]
        elif kind == "flatten":
            flat = reshaped(x, before, y)
            if flat is None:
                self.keep(lanes, f"{name} moves the dim of channels")
            lanes = whole(y).lanes if flat is None else flat.lanes
        elif kind not in ("channelwise", "elementwise", "spread"):
            self.keep(lanes, f"{name} {kind}")
            if isinstance(module, CONVOLUTIONS):
                self.stays.setdefault(name, Stays(kind, False))
                visible = frozenset({name})
            lanes = whole(y).lanes
        if kind in WITH_CHANNELS or name in self.spreads:
            if name in self.calls and not np.array_equal(self.calls[name].inputs, x.lanes):
                why = f"{name} is used for different channels"
                self.keep(np.concatenate([self.calls[name].inputs, x.lanes]), why)
            self.calls[name] = Call(x.lanes, lanes, kind in READERS)
        if name in self.spreads or kind == "spread":
            return whole(y, visible, name)
        return Channels(lanes, visible, self._source(name, module, kind, x))

    def _source(self, name: str, module: nn.Module, kind: str, x: Channels) -> str | None:
        """Where zeros may be put: not at a layer that serves several places."""
        if name not in self.repeated:
            return name
        return x.source if kind == "elementwise" and keeps_zero(module) else None

    def _convolve(self, name: str, module: nn.Module, x: Channels, kind: str) -> Lanes:
        width: Any = module.out_channels
        if width == 1:
            self.stays.setdefault(name, Stays("it has one filter alone", True))
        if name in self.stays:
            if kind == "depthwise":
                why, fine = self.stays[name]
                self.keep(x.lanes, f"{name} stays: {why}", fine=fine)
            return np.full(width, STAYS, dtype=np.int64)
        if name in self.calls:
            return self.calls[name].outputs
        own = self.filters.add(name, width)
        if kind == "depthwise":
            if (x.lanes == STAYS).any():
                self.stays[name] = Stays("each filter has an input of its own, which stays", False)
                self.keep(x.lanes, f"{name} needs them")
                return np.full(width, STAYS, dtype=np.int64)
            self.filters.merge(own, np.repeat(x.lanes, width // len(x.lanes)))
        return own

    def _maximum(self, name: str, lanes: Lanes, pieces: int) -> Lanes:
        first = lanes[::pieces]
        for i in range(1, pieces):
            neighbours = lanes[i::pieces]
            if ((first == STAYS) | (neighbours == STAYS)).any():
                self.keep(lanes, f"{name} takes the maximum with channels that stay")
            else:
                self.filters.merge(first, neighbours)
        return first

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        y = function(*args, **kwargs)
        tensors = list(tensors_in((args, kwargs)))
        inputs = [x for x in tensors if self._channels(x)]
        computes = any(True for _ in tensors_in(y))  # not a look at a shape or a device
        if computes:
            self.used.update(x for x in tensors if isinstance(x, nn.Parameter))
        name = operation(function)
        hidden = name in ("setitem", "numpy", "tolist", "array")  # out of sight from here on
        if self.depth or not inputs or not (hidden or computes):
            return y
        if in_rational():
            x = self._channels(inputs[0])
            if x is not None and isinstance(y, Tensor) and y.shape == inputs[0].shape:
                self._note(y, x.with_source(None))
            return y
        found = self._function(name, inputs, y, args, kwargs) if isinstance(y, Tensor) else None
        if found is not None:
            self._note(y, found)
        else:
            self._lose(f"{name}() may mix channels", inputs, y)
        return y

    def _function(
        self, name: str, inputs: list[Tensor], y: Tensor, args: Any, kwargs: Any
    ) -> Channels | None:
        if name == "cat":
            tensors = args[0] if args else kwargs["tensors"]
            parts = [(t, self._channels(t)) for t in tensors_in(tensors)]
            return joined(parts, dims_in(args, kwargs, 0))
        others = [t for t in tensors_in((args, kwargs)) if not self._channels(t) and t.numel() > 1]
        if name == "add" and adds_zero(args):  # as the builtin sum() begins
            return self._channels(inputs[0])
        if name in ("add", "mul"):
            known = y.ndim > 1 and all(meets_alike(t, y) for t in others)
            return self._combine(name, inputs, y) if known else None
        x = self._channels(inputs[0])
        if name == "expand_as" and args[0] is inputs[0]:  # the other lends its shape
            name, inputs = "expand", inputs[:1]
        if x is None or others or len(inputs) > 1:
            return None
        if name == "mean":
            return averaged(x, inputs[0], y, dims_in(args, kwargs, None))
        if name in WITH_ARGUMENTS:
            return WITH_ARGUMENTS[name](x, *args, **kwargs)
        return alike(name, x, inputs[0], y)

    def _combine(self, name: str, inputs: list[Tensor], y: Tensor) -> Channels | None:
        """A sum or product. What meets all channels alike, as a gate of one, changes nothing."""
        known = [(x, c) for x in inputs if (c := self._channels(x))]
        moved = [(x, c) for x, c in known if x.ndim != y.ndim]  # its channels meet another dim
        full = [c for x, c in known if not meets_alike(x, y)]
        if len(full) > 2 or any(c.can_go or not meets_alike(x, y) for x, c in moved):
            return None
        visible = frozenset[str]().union(*(c.visible for _, c in known))
        if not full:
            return whole(y, visible)
        a, b = full[0], full[-1]
        if len(full) == 1:
            return Channels(a.lanes, visible, a.source if name == "mul" else None)
        if np.array_equal(self.filters.heads(a.lanes), self.filters.heads(b.lanes)):
            return Channels(a.lanes, visible)
        equally_wide = len(a.lanes) == len(b.lanes)
        stay = (a.lanes == STAYS).any() or (b.lanes == STAYS).any()
        if name == "mul" and equally_wide and not stay:  # a gate lives and dies with its channel
            self.filters.merge(a.lanes, b.lanes)
            return Channels(a.lanes, visible)
        for x in full:
            self._pin(x, "it is added to, or multiplied with, other channels")
        return whole(y, visible)

    def _lose(self, why: str, inputs: list[Tensor], output: Any) -> None:
        """Something unknown: the filters behind its inputs stay."""
        visible: frozenset[str] = frozenset()
        for x in inputs:
            found = self._channels(x)
            if found is not None:
                self.keep(found.lanes, why)
                visible |= found.visible
        for y in tensors_in(output):
            self._note(y, whole(y, visible))


def follow(model: nn.Module, example: Tensor | tuple[Any, ...], stays: dict[str, Stays]) -> Flow:
    """The flow through ``model`` when nothing new is found; ``stays`` is added to."""
    first = Flow(model, dict(stays), set())
    first.run(example)
    repeated = {name for name, times in first.times.items() if times > 1}
    spreads: set[str] = set()
    while True:
        before = (len(stays), len(spreads))
        flow = Flow(model, stays, spreads, repeated)
        flow.run(example)
        if before == (len(stays), len(spreads)):
            return flow
