"""``freeze``: a model whose units are fixed functions, for deployment."""

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import Proxy

from padenet.core.forms import Spec
from padenet.torch.conversion.activations import HOOKS
from padenet.torch.deploy import exporting
from padenet.torch.functional import apply, check
from padenet.torch.nn import PAU
from padenet.torch.saving import state
from padenet.torch.seeing.finding import find_units
from padenet.torch.tracing import is_recording, record_module

Interval = tuple[float, float]
ENTRIES = 256


def freeze(
    model: nn.Module, *, table: Interval | Mapping[str, Interval] | None = None
) -> nn.Module:
    """A copy of ``model`` whose units have no parameters any more and can be trained no further.

    Each becomes a ``Frozen``, the same function bit for bit; an RPAU one without noise. Exporters
    then know the coefficients and leave out what is zero: ``padenet.torch.deploy.exporting``.

    Args:
        model: Not changed. The copy keeps its mode, hooks and the names of its state.
        table: For 8-bit deployments each unit becomes a ``Table`` over this interval, or over
            that of its name in a mapping: what its inputs are quantised to.
    """
    if isinstance(model, torch.jit.ScriptModule) or hasattr(model, "_orig_mod"):
        raise TypeError(
            f"{type(model).__name__} is scripted or compiled. Freeze the model first, then "
            "script or compile it."
        )
    kinds = {type(module) for module in model.modules()}
    if kinds & {Frozen, Table} and not any(issubclass(kind, PAU) for kind in kinds):
        raise ValueError(
            f"the units of {type(model).__name__} are frozen already. Freeze the model that has "
            "their parameters."
        )
    names = {unit: name for name, unit in find_units(model).items()}
    if isinstance(table, Mapping) and (missing := names.values() - table.keys()):
        raise ValueError(
            f"table has no interval for {', '.join(sorted(missing))}. Give one for every unit: "
            f"{', '.join(names.values())}."
        )
    fixed: dict[nn.Module, nn.Module] = {}
    for unit, name in names.items():
        interval = table[name] if isinstance(table, Mapping) else table
        new = Frozen(unit) if interval is None else Table(unit, interval)
        for hooks in HOOKS:
            setattr(new, hooks, copy.copy(getattr(unit, hooks)))
        fixed[unit] = new.train(unit.training)
    # To deepcopy the fixed units are what has been copied of the units already.
    return copy.deepcopy(model, {id(unit): new for unit, new in fixed.items()})


class Frozen(nn.Module):
    """``P(x) / Q(x)`` with the coefficients of ``unit`` as buffers ``a`` and ``b``."""

    a: Tensor
    b: Tensor

    def __init__(self, unit: PAU):
        super().__init__()
        self.spec: Spec = unit.spec
        self.degrees, self.groups = unit.degrees, unit.groups
        for name in ("a", "b"):
            self.register_buffer(name, getattr(unit, name).detach().clone())
        self._read()

    def forward(self, x: Tensor) -> Tensor:
        if isinstance(x, Proxy):
            return record_module(self, x)
        held = self._buffers
        a, b = held["a"], held["b"]
        assert a is not None and b is not None
        if is_recording() and self._rows:
            check(x, a, b, self.spec)
            rows_a, rows_b = self._rows
            return exporting.fixed(x, a, b, rows_a, rows_b, self.spec)
        return apply(x, a, b, None, self.spec)

    def _read(self) -> None:
        """Keep the values as numbers too: an exporter does not show those of a tensor."""
        self._rows: Any = None
        if not self.a.is_meta:
            pair = (self.a, self.b)
            self._rows = tuple(
                tuple(map(tuple, (c if c.ndim == 2 else c[None]).double().tolist())) for c in pair
            )

    def _apply(self, fn: Any, recurse: bool = True) -> "Frozen":
        super()._apply(fn, recurse)
        self._read()
        return self

    def get_extra_state(self) -> Tensor:
        return state.write(self._kind(), None if self.a.is_meta else self.a.device)

    def set_extra_state(self, saved: Any) -> None:
        """The state of a unit fits, if it is one of this kind."""
        if wrong := state.compare(state.read(saved, state.SUFFIX), self._kind()):
            raise ValueError(f"a frozen unit cannot take this state: {wrong}. Freeze that model.")
        self._read()

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        own = {prefix + state.SUFFIX: self.get_extra_state()}  # where the state does not say it
        super()._load_from_state_dict({**own, **state_dict}, prefix, *rest)

    def _kind(self) -> dict[str, Any]:
        return state.describe(self.degrees, self.spec, self.groups)

    def extra_repr(self) -> str:
        parts = [f"degrees={self.degrees}", f"form={self.spec.form!r}"]
        if self.spec.q != 1:
            parts.append(f"q={self.spec.q}")
        if self.a.ndim == 2:
            parts += [f"groups={len(self.a)}", f"channel_dim={self.spec.channel_dim}"]
        return ", ".join(parts)


class Table(nn.Module):
    """The nearest of 256 values of a unit, evenly spaced over ``interval``, ends included.

    Beyond the interval it is the value at its end, at NaN that at the lower end. On inputs that
    were quantised to 8 bits with scale s and zero point z the interval
    ``(-z * s, (255 - z) * s)`` makes every input an entry, and the look-up exact.

    Attributes:
        error: The greatest |F(x) - table| over the interval, at 64 points an entry; of each group.
    """

    values: Tensor

    def __init__(self, unit: PAU, interval: Interval):
        super().__init__()
        low, high = map(float, interval)
        step = (high - low) / (ENTRIES - 1)
        if not 0 < step < float("inf"):
            raise ValueError(f"table={interval} must be (low, high), finite, and low < high.")
        self.interval = (low, high)
        self.groups, self.channel_dim = unit.groups, unit.channel_dim
        a, b = (c.detach().double().reshape(unit.groups, -1) for c in (unit.a, unit.b))
        fine = torch.linspace(low, high, 64 * (ENTRIES - 1) + 1, dtype=torch.float64)
        y = apply(
            fine.to(a.device).expand(unit.groups, -1),
            a,
            b,
            None,
            unit.spec._replace(channel_dim=0),
        )
        values = y[:, ::64]
        dtype = torch.float64 if unit.a.dtype == torch.float64 else torch.float32
        nearest = torch.arange(y.shape[1], device=y.device).add(32).div(64, rounding_mode="floor")
        self.error: tuple[float, ...] = tuple((y - values[:, nearest]).abs().amax(1).tolist())
        self.register_buffer("values", values.to(dtype).flatten())

    def forward(self, x: Tensor) -> Tensor:
        if isinstance(x, Proxy):
            return record_module(self, x)
        low, high = self.interval
        wide = x if x.dtype in (torch.float32, torch.float64) else x.float()
        place = (wide - low) * ((ENTRIES - 1) / (high - low))
        # Clamped once more as a whole number, because NaN may become any.
        index = place.clamp(0, ENTRIES - 1).round().long().clamp(0, ENTRIES - 1)
        if self.groups > 1:
            index = index + self._offsets(x)
        return self.values.to(x.dtype).take(index)

    def _offsets(self, x: Tensor) -> Tensor:
        """Where the entries begin, of the group of each channel."""
        dim = self.channel_dim % x.ndim
        starts = ENTRIES * torch.arange(self.groups, device=x.device)
        starts = starts.unsqueeze(-1).expand(-1, x.shape[dim] // self.groups)
        return starts.reshape(-1, *[1] * (x.ndim - dim - 1))

    def extra_repr(self) -> str:
        groups = f", groups={self.groups}" if self.groups > 1 else ""
        return f"interval={self.interval}, error={max(self.error):.2g}{groups}"
