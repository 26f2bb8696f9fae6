"""``stabilize(model, optimizer)``: no step of an optimiser makes a unit blow up."""

import warnings
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from padenet.kernels import gpu
from padenet.nn import PAU, starting_coefficients
from padenet import trust

_HOLDERS: "weakref.WeakKeyDictionary[Optimizer, list[_Holder]]" = weakref.WeakKeyDictionary()
# An optimiser that searches along a line: its step is one whole, weights and all, and a search of
# its own kept it sound on the data. It may go further by this factor, and is shortened as a whole.
WHOLE_STEPS = {"LBFGS": 1000.0}
MATRICES_ONLY = ("Muon",)  # optimisers that treat what is two-dimensional as a linear map


@dataclass(frozen=True)
class Held:
    """What ``stabilize`` did to a unit: in ``held`` of ``steps`` it shortened the step, for the
    first time in step ``since`` (counted from 1; None: never). With groups, that of the group which
    was held most often."""

    unit: str
    steps: int
    held: int
    since: int | None

    def __str__(self) -> str:
        share = 100 * self.held / max(1, self.steps)
        first = f", the first time in step {self.since}" if self.since else ""
        return f"{self.unit}: {self.held} of {self.steps} steps shortened ({share:.1f} %){first}"


def stabilize(
    model: nn.Module,
    optimizer: Optimizer | Iterable[Optimizer],
    *,
    most: float = trust.MOST,
) -> "Stabilizer":
    """Let no step of ``optimizer`` move a unit of ``model`` too far. One line, after the optimiser.

        optimizer = torch.optim.SGD(padenet.param_groups(model, lr=0.05), momentum=0.9)
        padenet.stabilize(model, optimizer)

    A coefficient's gradient is a sum over all elements of a layer, and far from 0 a small change of
    a coefficient is a large one of the function. So each step is measured by what it does to the
    function, and shortened where that is more than ``most``; see ``padenet.trust``. It works
    with any optimiser of torch, closures, schedulers and gradient scalers, under DDP and FSDP2, and
    inside CUDA graphs, and costs a fraction of a millisecond a step.

    It is a pair of hooks on ``optimizer.step``. Pickling or copying an optimiser drops its hooks:
    call it again for the copy. ``load_state_dict`` keeps them. Calling it twice is calling it once.

    Args:
        model: Its units are held, those in wrappers such as DDP too.
        optimizer: The one that trains their coefficients, or several.
        most: How far F may move in a step: anywhere in [-3, 3], and in proportion to \\|x\\| beyond.

    Returns:
        A ``Stabilizer``: print it to see how often it acted, ``remove()`` ends it.
    """
    if not 0 < most < float("inf"):
        raise ValueError(
            f"most={most} must be a finite number above 0: {trust.MOST} lets F move by that much."
        )
    optimizers = [optimizer] if isinstance(optimizer, Optimizer) else list(optimizer)
    for o in optimizers:
        if not isinstance(o, Optimizer):
            raise TypeError(f"optimizer={o!r} is not a torch.optim.Optimizer.")
    units = {name or "model": m for name, m in model.named_modules() if isinstance(m, PAU)}
    if not units:
        raise ValueError(
            "model has no unit to stabilize. Call padenet.convert first, or leave this out."
        )
    held, left = _share_out(units, optimizers)
    mine = {id(unit) for unit in units.values()}
    for o in optimizers:
        for holder in _HOLDERS.get(o, []):
            if any(id(unit) in mine for unit in holder.units.values()):
                holder.remove()  # twice is once
    holders = [_Holder(o, own, most) for o, own in zip(optimizers, held, strict=True) if own]
    return Stabilizer(holders, list(units), left)


class Stabilizer:
    """What ``stabilize`` returns: what was done so far, and a way to end it."""

    def __init__(self, holders: list["_Holder"], names: list[str], left: list[str]):
        self._holders, self._names, self.left = holders, names, tuple(left)

    def remove(self) -> None:
        """No longer hold the units."""
        for holder in self._holders:
            holder.remove()

    def report(self) -> tuple[Held, ...]:
        """What was done to each unit so far. Waits for the device."""
        found = {held.unit: held for holder in self._holders for held in holder.report()}
        return tuple(found[name] for name in self._names if name in found)

    def __str__(self) -> str:
        lines = [str(held) for held in self.report()]
        return "\n".join([*lines, *(f"{name}: not trained by this optimizer" for name in self.left)])


def _share_out(
    units: dict[str, PAU], optimizers: list[Optimizer]
) -> tuple[list[dict[str, PAU]], list[str]]:
    """The units that each optimiser trains, and the names of those that none does."""
    holds = [{id(p): g for g in o.param_groups for p in g["params"]} for o in optimizers]
    others = [o for o in _HOLDERS if o not in optimizers]
    shares: list[dict[str, PAU]] = [{} for _ in optimizers]
    left: list[str] = []
    decaying: list[str] = []
    for name, unit in units.items():
        own = [p for p in unit.parameters() if p.requires_grad]
        places = sorted({i for i, h in enumerate(holds) for p in own if id(p) in h})
        elsewhere = [o for o in others if any(u is unit for h in _HOLDERS[o] for u in h.units.values())]
        if len(places) > 1 or (places and elsewhere):
            raise ValueError(
                f"the coefficients of unit {name!r} are in two optimizers, so that neither knows "
                "what a step of both does. Leave them to one of them."
            )
        if not places:
            left.append(name)
            continue
        kind = type(optimizers[places[0]]).__name__
        if kind in MATRICES_ONLY:
            raise ValueError(
                f"the coefficients of unit {name!r} are in {kind}, which is for matrices. Give it "
                'the group "matrices" of padenet.param_groups(model, lr=…, matrices=True), and the '
                "other groups to another optimizer."
            )
        if any(holds[places[0]].get(id(p), {}).get("weight_decay") for p in own):
            decaying.append(name)
        shares[places[0]][name] = unit
    if len(left) == len(units):
        why = "they do not require gradients" if not any(
            p.requires_grad for u in units.values() for p in u.parameters()
        ) else "build it from padenet.param_groups(model, lr=…) or model.parameters()"
        raise ValueError(
            f"the optimizer holds no coefficient of the {len(units)} units of model, such as "
            f"{left[0]!r}: {why}."
        )
    if decaying:
        warnings.warn(
            f"the coefficients of {len(decaying)} units, such as {decaying[0]!r}, decay, which pulls "
            "these towards the zero function. Build the optimizer from padenet.param_groups(model, "
            "lr=…, weight_decay=…), which decays weights alone.",
            UserWarning,
            stacklevel=3,
        )
    return shares, left


class _Holder:
    """The hooks on one optimiser, and the units that it trains."""

    def __init__(self, optimizer: Optimizer, units: dict[str, PAU], most: float):
        self.optimizer, self.units, self.most = weakref.ref(optimizer), units, most
        self.further = WHOLE_STEPS.get(type(optimizer).__name__)
        self.whole: list[tuple[Tensor, Tensor]] = []  # parameters before a step that is one whole
        self.banks: dict[Any, _Bank] = {}
        self.handles = [
            optimizer.register_step_pre_hook(self._before),
            optimizer.register_step_post_hook(self._after),
        ]
        _HOLDERS.setdefault(optimizer, []).append(self)
        self._arrange()

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()
        optimizer = self.optimizer()
        if optimizer is not None and self in _HOLDERS.get(optimizer, []):
            _HOLDERS[optimizer].remove(self)

    def report(self) -> Iterator[Held]:
        for bank in self.banks.values():
            yield from bank.report()

    def _arrange(self) -> None:
        """Units alike into one bank, whose steps are computed together."""
        alike: dict[Any, dict[str, PAU]] = {}
        for name, unit in self.units.items():
            key = unit.degrees, unit.form, unit.q, unit.a.device, unit.a.dtype, _is_sharded(unit.a)
            alike.setdefault(key, {})[name] = unit
        if alike.keys() != self.banks.keys():  # at first, and when the model was moved
            self.banks = {key: _Bank(units, self.most) for key, units in alike.items()}

    @torch.no_grad()
    def _before(self, optimizer: Optimizer, *_: Any) -> None:
        self._arrange()
        for bank in self.banks.values():
            bank.remember()
        if self.further:
            self.whole = [(p, p.clone()) for g in optimizer.param_groups for p in g["params"]]

    @torch.no_grad()
    def _after(self, optimizer: Optimizer, *_: Any) -> None:
        if not self.further:
            for bank in self.banks.values():
                bank.hold()
            return
        t = min(bank.part(self.most * self.further) for bank in self.banks.values())
        if t < 1:
            for p, before in self.whole:
                p.copy_(torch.where(p.isfinite(), before + t * (p - before), before))
        self.whole = []


class _Bank:
    """Units of one form, degrees, device and dtype, a row for each unit or group."""

    def __init__(self, units: dict[str, PAU], most: float):
        self.units, self.most = units, most
        first = next(iter(units.values()))
        self.degrees, self.spec, device = first.degrees, first.spec, first.a.device
        self.grid = trust.make_grid(self.degrees, self.spec, device)
        self.sizes = [unit.groups for unit in units.values()]
        rows = sum(self.sizes)
        counts = self.degrees[0] + 1, self.degrees[1] + self.spec.constant
        like = {"dtype": first.a.dtype, "device": device}
        self.old, self.new = ([torch.zeros(rows, c, **like) for c in counts] for _ in range(2))
        self.old_views, self.new_views = self._views(self.old), self._views(self.new)
        self.least = torch.cat([_least(unit) for unit in units.values()]).to(device)
        self.steps, self.held, self.since = torch.zeros(3, rows, dtype=torch.int64, device=device)
        self.sharded = _is_sharded(first.a)
        self.launch: Any = None
        if device.type == "cuda" and not self.sharded and gpu.refuses(first.a, first.a, first.b) is None:
            from padenet.kernels.gpu.trust import Launch

            self.launch = Launch(self)

    def _views(self, tables: list[Tensor]) -> list[Tensor]:
        """Of each unit, in the shape of its parameters."""
        rows = [table.split(self.sizes) for table in tables]
        pairs = zip(self.units.values(), *rows, strict=True)
        return [part.view(p.shape) for u, *parts in pairs for part, p in zip(parts, (u.a, u.b), strict=True)]

    def parameters(self) -> list[Tensor]:
        return [p for unit in self.units.values() for p in (unit.a, unit.b)]

    def remember(self) -> None:
        torch._foreach_copy_(self.old_views, self._whole())

    def hold(self) -> None:
        if self.launch is not None:
            return self.launch()
        torch._foreach_copy_(self.new_views, self._whole())
        old, new = ([t.double() for t in tables] for tables in (self.old, self.new))
        a, b, cut = trust.hold(old, new, self.least, self.grid, self.spec, self.most)
        for table, values in zip(self.new, (a, b), strict=True):
            table.copy_(values)
        self._count(cut)
        if self.sharded:
            _write_shards(self.parameters(), self.new_views)
        else:
            torch._foreach_copy_(self.parameters(), self.new_views)

    def part(self, most: float) -> float:
        """How much of the step all parameters may take together, those of other layers too."""
        torch._foreach_copy_(self.new_views, self._whole())
        old = [t.double() for t in self.old]
        step = [new.double() - o for new, o in zip(self.new, old, strict=True)]
        parts = trust.shorten((old[0], old[1]), (step[0], step[1]), self.grid, self.spec, most)
        self._count(parts < 1)
        return float(parts.min())

    def _count(self, cut: Tensor) -> None:
        self.steps += 1
        self.held += cut
        self.since.copy_(torch.where((self.since == 0) & cut, self.steps, self.since))

    def _whole(self) -> list[Tensor]:
        return [p.full_tensor() for p in self.parameters()] if self.sharded else self.parameters()

    def report(self) -> Iterator[Held]:
        steps = int(self.steps[0])
        rows = zip(self.units, self.held.split(self.sizes), self.since.split(self.sizes), strict=True)
        for name, held, since in rows:
            begun = since[since > 0]
            yield Held(name, steps, int(held.max()), int(begun.min()) if len(begun) else None)


def _least(unit: PAU) -> Tensor:
    """What b_n of each group is kept beyond, with its sign; 0 where it may be anything."""
    b = starting_coefficients(unit.init, unit.degrees, unit.spec, unit.aim)[1]
    if not unit.degrees[1] or unit.form not in ("safe", "offset"):
        return torch.zeros(unit.groups, dtype=torch.float64)
    return (trust.FLOOR * b[..., -1]).expand(unit.groups).contiguous()


def _is_sharded(p: Any) -> bool:
    """Whether a parameter is a DTensor, as FSDP2 makes them."""
    return hasattr(p, "full_tensor")


def _write_shards(parameters: list[Any], values: list[Tensor]) -> None:
    from torch.distributed.tensor import distribute_tensor

    for p, value in zip(parameters, values, strict=True):
        p.copy_(distribute_tensor(value, p.device_mesh, p.placements))
