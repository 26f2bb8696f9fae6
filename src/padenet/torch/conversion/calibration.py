r"""``calibrate``: every unit fitted to the inputs that its own layer sees.

A copy of the model, in which each unit computes the function that it replaced, runs over the data.
Inputs are counted in bins that widen with |x|, so memory is constant and the range has no end. A
bin counts by its effect: the sum of (dv/dy)² over its elements, where y is what the unit returns
and v the sum of all outputs of the model with random signs. That is how much an error there moves
the outputs. How often x occurs is not: in a pretrained encoder a thousand inputs of -8, all of
neurons with huge weights, move the embeddings as much as a million near 0. Where there are no
gradients, each bin counts by the square root of its density.

Every part of the range counts at least a little, relative to |x|, and so does what is next to it.
"""

import copy
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import partial
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from padenet.core.fitting import fit, refit
from padenet.torch.functional import rational
from padenet.torch.nn import PAU
from padenet.torch.seeing.inputs import Counter

Function = Callable[[Tensor], Tensor]
STEPS = 16  # bins by which |x| grows e-fold, far from 0
EDGES = 0.25 * np.sinh(np.arange(-90 * STEPS, 90 * STEPS + 1) / STEPS)  # up to 1e38
USUAL = 3.0  # the range is at least [-USUAL, USUAL]; beyond it errors count relative to |x|
REACH, MARGIN = 10.0, 2.0  # next to it: up to MARGIN times the range, at least [-REACH, REACH]
FLOOR, TAIL = 1e-4, 1e-6  # what the range and the margin count, all inputs being 1


class Seen(NamedTuple):
    """Inputs of a unit and its error on them: root mean square over all, and the maximum."""

    total: int
    low: float
    high: float
    rms: float
    max_error: float
    by: str  # "effect" or "count"


class _Probe:
    """In place of a unit's forward: its function, with the inputs counted."""

    def __init__(self, name: str, unit: PAU, function: Function):
        self.name, self.unit, self.function = name, unit, function
        groups = unit.groups
        self.counts = Counter(EDGES, groups)
        self.effects = Counter(EDGES, groups, torch.float64)
        self.low, self.high = torch.full((groups,), np.inf), torch.full((groups,), -np.inf)
        self.calls: list[tuple[Tensor, Tensor]] = []

    def __call__(self, x: Tensor) -> Tensor:
        rows = self._rows(x.detach())
        if rows.numel():
            self.counts.add(rows)
            self.low = torch.minimum(self.low.to(rows.device), rows.amin(1).float())
            self.high = torch.maximum(self.high.to(rows.device), rows.amax(1).float())
        y = self.apply(x, self.unit.channel_dim)
        if not torch.is_grad_enabled() or not rows.numel():
            return y
        change = torch.zeros_like(y, requires_grad=True)
        self.calls.append((x.detach(), change))
        return y + change

    def apply(self, x: Tensor, channel_dim: int) -> Tensor:
        """The function, which takes channels last where it has one for each."""
        if self.unit.groups == 1:
            return self.function(x)
        return self.function(x.movedim(channel_dim, -1)).movedim(-1, channel_dim)

    def _rows(self, x: Tensor) -> Tensor:
        """``x`` as (groups, numbers)."""
        if self.unit.groups > 1:
            x = x.movedim(self.unit.channel_dim, 0)
        return x.reshape(self.unit.groups, -1)

    def credit(self, gradients: Iterable[Tensor | None]) -> None:
        for (x, _), g in zip(self.calls, gradients, strict=True):
            if g is not None:
                self.effects.add(self._rows(x), self._rows(g).double().square())


def calibrate(
    model: nn.Module, units: Mapping[str, tuple[PAU, Function]], data: Any
) -> dict[str, Seen]:
    """Fit each unit to its function where its inputs in ``model`` are; what each has seen.

    Args:
        model: With the units in place. Only their coefficients change.
        units: By name, each with the function that it replaces. Channels are the last dim of that
            function's argument where the unit has groups.
        data: A batch, as the model's forward takes it: a tensor, a tuple of arguments, a mapping
            of keyword arguments; an iterable of batches; or a function that runs the model.

    Units that see no input keep their coefficients and are left out of the result.
    """
    memo: dict[int, Any] = {id(p): p for p in model.parameters()}  # shared; all else is copied
    twin = copy.deepcopy(model, memo).eval()
    probes = [_Probe(name, unit, f) for name, (unit, f) in units.items()]
    for probe in probes:
        memo[id(probe.unit)].forward = probe
    with _same_chance(model):
        if _is_function(data):
            with torch.no_grad():
                data(twin)
        else:
            generator = torch.Generator().manual_seed(0)
            for args, kwargs in _batches(data, twin):
                _run(twin, args, kwargs, probes, generator)
    for probe in probes:
        _check(probe)
    seen = [probe for probe in probes if probe.counts.rows.any()]
    if probes and not seen:
        raise ValueError(
            "no unit saw an input while calibrating. Pass at least one batch, or a function that "
            "runs the model which it is given: lambda model: model(x)."
        )
    return {probe.name: _fit(probe) for probe in seen}


def _run(
    twin: nn.Module, args: Any, kwargs: Any, probes: list[_Probe], generator: torch.Generator
) -> None:
    """One batch, and the effect of each unit's outputs on those of the model."""
    with torch.enable_grad():
        outputs = [t for t in _tensors(twin(*args, **kwargs)) if t.requires_grad]
        changes = [change for probe in probes for _, change in probe.calls]
        if outputs and changes:
            signs = [
                torch.randint(0, 2, t.shape, generator=generator).mul_(2).sub_(1).to(t)
                for t in outputs
            ]
            found = iter(torch.autograd.grad(outputs, changes, signs, allow_unused=True))
            for probe in probes:
                probe.credit([next(found) for _ in probe.calls])
    for probe in probes:
        probe.calls.clear()


def _check(probe: _Probe) -> None:
    below, above, nan = probe.counts.rows[:, [0, -2, -1]].sum(0).tolist()
    if below or above or nan:
        raise ValueError(
            f"unit {probe.name!r} saw inputs that are not finite while calibrating: {nan} NaN, "
            f"{below + above} infinite, of {int(probe.counts.rows.sum())}. Look for them in the "
            f"data or the model, or leave the unit out: skip={probe.name!r}."
        )


def _fit(probe: _Probe) -> Seen:
    unit = probe.unit
    counts = probe.counts.rows[:, 1:-2].double().cpu().numpy()
    effects = probe.effects.rows[:, 1:-2].cpu().numpy()
    by = "effect" if np.isfinite(effects).all() and effects.any() else "count"
    weights = effects if by == "effect" else np.sqrt(counts * np.diff(EDGES))
    limits = [(float(a), float(b)) for a, b in zip(probe.low, probe.high, strict=True)]
    low, high = min(a for a, _ in limits), max(b for _, b in limits)
    every = fit(
        partial(_of_group, probe, group=0),
        unit.degrees,
        form=unit.form,
        q=unit.q,
        weights=_weigh(weights.sum(0), low, high),
    )
    fits = [every] if unit.groups == 1 else []
    for i in range(unit.groups if unit.groups > 1 else 0):
        row = weights[i] if weights[i].any() else weights.sum(0)
        near = limits[i] if counts[i].any() else (low, high)
        fits.append(refit(partial(_of_group, probe, group=i), _weigh(row, *near), every))
    a, b = (torch.tensor([getattr(f, k) for f in fits], dtype=torch.float64) for k in "ab")
    unit.init, unit.aim = ((a, b) if unit.groups > 1 else (a[0], b[0])), None
    unit.reset_parameters()
    squares, most = 0.0, 0.0
    for i, near in enumerate(limits):
        if counts[i].any():
            inside = np.flatnonzero(counts[i])
            x = (EDGES[inside] + EDGES[inside + 1]) / 2
            error = _error(probe, x.clip(*near), a[i], b[i], i)
            squares += float((error**2 * counts[i][inside]).sum())
            grid = np.linspace(*near, 2001)
            most = max(most, float(np.abs(_error(probe, grid, a[i], b[i], i)).max()))
    total = int(counts.sum())
    return Seen(total, low, high, (squares / total) ** 0.5, most, by)


def _weigh(row: np.ndarray, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """Edges and weights of the bins that a fit looks at."""
    low, high = min(low, -USUAL), max(high, USUAL)
    first, last = min(MARGIN * low, -REACH), max(MARGIN * high, REACH)
    part = (EDGES[1:] > first) & (EDGES[:-1] < last)
    bins = np.flatnonzero(part)
    edges, row = EDGES[bins[0] : bins[-1] + 2], row[bins]
    middle, width = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
    share = width / (1 + (middle / USUAL) ** 2)
    inside = (edges[1:] > low) & (edges[:-1] < high)
    floor = np.where(inside, FLOOR, TAIL) * share / share[inside].sum()
    return edges, row / row.sum() + floor


def _of_group(probe: _Probe, x: Any, group: int) -> Any:
    if probe.unit.groups == 1:
        return probe.function(torch.as_tensor(x))
    return probe.function(torch.as_tensor(x)[:, None].expand(-1, probe.unit.groups))[:, group]


def _error(probe: _Probe, x: np.ndarray, a: Tensor, b: Tensor, group: int) -> np.ndarray:
    at = torch.as_tensor(x)
    y = rational(at, a, b, form=probe.unit.form, q=probe.unit.q)
    return (y - _of_group(probe, at, group)).numpy()


def _is_function(data: Any) -> bool:
    return callable(data) and not isinstance(data, (Tensor, Mapping, nn.Module, Iterable))


def _batches(data: Any, model: nn.Module) -> Iterator[tuple[tuple[Any, ...], Mapping[str, Any]]]:
    """Arguments of each call, checked, where the model is."""
    if isinstance(data, (str, bytes, nn.Module)) or not isinstance(data, (Tensor, Iterable)):
        raise TypeError(
            f"calibrate={data!r} is no batch (a tensor, a tuple or a dict of tensors), no iterable "
            "of batches, and no function that runs the model."
        )
    single = isinstance(data, (Tensor, np.ndarray, tuple, Mapping))
    at = next((t.device for t in [*model.parameters(), *model.buffers()]), None)
    takes = signature(model.forward)
    for i, batch in enumerate([data] if single else data):
        args = () if isinstance(batch, Mapping) else batch
        args = tuple(args) if isinstance(args, (tuple, list)) else (args,)
        kwargs = dict(batch) if isinstance(batch, Mapping) else {}
        if any(isinstance(value, np.ndarray) for value in (*args, *kwargs.values())):
            raise TypeError(
                f"batch {i} of calibrate holds a NumPy array. Pass tensors: torch.as_tensor(array)."
            )
        try:
            takes.bind(*args, **kwargs)
        except TypeError as error:
            fix = "Pass what forward takes, e.g. (x for x, _ in loader)."
            if isinstance(data, tuple):
                fix = "A tuple is one batch, the arguments of one call; give several as a list."
            raise TypeError(
                f"batch {i} of calibrate does not fit {type(model).__name__}.forward{takes}: "
                f"{error}. {fix}"
            ) from None
        yield tuple(_move(v, at) for v in args), {k: _move(v, at) for k, v in kwargs.items()}


def _move(value: Any, device: torch.device | None) -> Any:
    return value.to(device) if isinstance(value, Tensor) and device is not None else value


def _tensors(value: Any) -> Iterator[Tensor]:
    """All tensors in what a model returns."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        yield from _tensors(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _tensors(each)
    elif is_dataclass(value):
        yield from _tensors([getattr(value, f.name) for f in fields(value)])


@contextmanager
def _same_chance(model: nn.Module) -> Iterator[None]:
    """Leave the states of all random generators as they are."""
    devices = {t.device for t in [*model.parameters(), *model.buffers()] if t.is_cuda}
    states = random.getstate(), np.random.get_state()  # noqa: NPY002, what others draw from
    try:
        with torch.random.fork_rng(list(devices)):
            yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
