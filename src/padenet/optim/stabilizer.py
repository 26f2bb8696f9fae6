"""``stabilize(model, optimizer)``: no step of an optimiser makes a unit blow up."""

import warnings
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from padenet import trust
from padenet.nn import PAU
from padenet.optim.bank import Bank, Held, is_sharded
from padenet.optim.spikes import SPIKE, Spikes

_HOLDERS: "weakref.WeakKeyDictionary[Optimizer, list[_Holder]]" = weakref.WeakKeyDictionary()
# An optimiser that searches along a line: its step is one whole, weights and all, and a search of
# its own kept it sound on the data. It may go further by this factor, and is shortened as a whole.
WHOLE_STEPS = {"LBFGS": 1000.0}
MATRICES_ONLY = ("Muon",)  # optimisers that treat what is two-dimensional as a linear map


def stabilize(
    model: nn.Module,
    optimizer: Optimizer | Iterable[Optimizer],
    *,
    most: float = trust.MOST,
    spike: float | None = SPIKE,
) -> "Stabilizer":
    """Let no step of ``optimizer`` move a unit of ``model`` too far. One line, after the optimiser.

        optimizer = torch.optim.SGD(padenet.param_groups(model, lr=0.05), momentum=0.9)
        padenet.stabilize(model, optimizer)

    A coefficient's gradient is a sum over all elements of a layer, and far from 0 a small change of
    a coefficient is a large one of the function. So each step is measured by what it does to the
    function, and shortened where that is more than ``most`` (``padenet.trust``). Besides, gradients
    that are suddenly ``spike`` times as large as usual, those of the weights too, are shortened to
    that (``padenet.optim.spikes``): near the highest rate at which a net trains, a unit would turn
    them into infinity where ReLU forgets them.

    It works with any optimiser of torch, closures, schedulers and gradient scalers, under DDP and
    FSDP2, and inside CUDA graphs, and costs a fraction of a millisecond a step.

    It is a pair of hooks on ``optimizer.step``. Pickling or copying an optimiser drops its hooks:
    call it again for the copy. ``load_state_dict`` keeps them. Calling it twice is calling it once.

    Args:
        model: Its units are held, those in wrappers such as DDP too.
        optimizer: The one that trains the model, or several.
        most: How far F may move in a step, anywhere in [-3, 3]; beyond in proportion to \\|x\\|.
        spike: How many times the usual size gradients may be; None for no limit. LBFGS has none.

    Returns:
        A ``Stabilizer``: print it to see how often it acted, ``remove()`` ends it.
    """
    if not 0 < most < float("inf"):
        raise ValueError(
            f"most={most} must be a finite number above 0: {trust.MOST} lets F move by that much."
        )
    if spike is not None and not 1 < spike < float("inf"):
        raise ValueError(
            f"spike={spike} must be a finite number above 1, or None: {SPIKE} shortens gradients "
            "that are more than that many times as large as usual."
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
    mine = frozenset(id(unit) for unit in units.values())
    for o in optimizers:
        for holder in list(_HOLDERS.get(o, [])):
            if holder.of & mine:
                holder.remove()  # twice is once
    holders = [_Holder(o, own, mine, most, spike) for o, own in zip(optimizers, held, strict=True)]
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
        found = {held.name: held for holder in self._holders for held in holder.report()}
        return tuple(found[name] for name in self._names if name in found)

    def gradients(self) -> tuple[Held, ...]:
        """How often the gradients of each optimiser were shortened. Waits for the device."""
        return tuple(h for holder in self._holders if (h := holder.gradients()) is not None)

    def state_dict(self) -> dict[str, Any]:
        """What a later step depends on, and the counts: for a checkpoint, beside the optimiser's.
        The tensors are those in use."""
        return {"optimizers": [holder.state_dict() for holder in self._holders]}

    @torch.no_grad()
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what ``state_dict`` gave for the same model and optimisers."""
        if _shapes(self.state_dict()) != _shapes(state):
            raise ValueError(
                "the state is of another stabilize: other units, groups or optimizers. Load that "
                "of the same model, or leave it out, which starts the counts anew."
            )
        for mine, given in zip(self.tensors(), _leaves(state), strict=True):
            mine.copy_(given)

    def tensors(self) -> list[Tensor]:
        """Those of ``state_dict``: what a step changes here."""
        return _leaves(self.state_dict())

    def __str__(self) -> str:
        lines = [str(held) for held in (*self.report(), *self.gradients())]
        return "\n".join(
            [*lines, *(f"{name}: not trained by this optimizer" for name in self.left)]
        )


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
        elsewhere = [
            o for o in others if any(u is unit for h in _HOLDERS[o] for u in h.units.values())
        ]
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
        why = (
            "they do not require gradients"
            if not any(p.requires_grad for u in units.values() for p in u.parameters())
            else "build it from padenet.param_groups(model, lr=…) or model.parameters()"
        )
        raise ValueError(
            f"the optimizer holds no coefficient of the {len(units)} units of model, such as "
            f"{left[0]!r}: {why}."
        )
    if decaying:
        warnings.warn(
            f"the coefficients of {len(decaying)} units, such as {decaying[0]!r}, decay, which "
            "pulls these towards the zero function. Build the optimizer from "
            "padenet.param_groups(model, lr=…, weight_decay=…), which decays weights alone.",
            UserWarning,
            stacklevel=3,
        )
    return shares, left


class _Holder:
    """The hooks on one optimiser, and the units that it trains."""

    def __init__(
        self,
        optimizer: Optimizer,
        units: dict[str, PAU],
        of: frozenset[int],
        most: float,
        spike: float | None,
    ):
        self.optimizer, self.units, self.of, self.most = weakref.ref(optimizer), units, of, most
        self.further = WHOLE_STEPS.get(type(optimizer).__name__)
        device = _parameters(optimizer)[0].device
        self.spikes = None if self.further or spike is None else Spikes(spike, device)
        self.whole: list[tuple[Tensor, Tensor]] = []  # parameters before a step that is one whole
        self.banks: dict[Any, Bank] = {}
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

    def counts(self) -> dict[str, Tensor]:
        """Of each unit steps, held and since, (3, groups)."""
        return {k: v for bank in self.banks.values() for k, v in bank.by_unit(bank.counts).items()}

    def state_dict(self) -> dict[str, Any]:
        gradients = {} if self.spikes is None else self.spikes.state_dict()
        return {"gradients": gradients, "units": self.counts()}

    def gradients(self) -> Held | None:
        if self.spikes is None:
            return None
        steps, cut, since = (
            int(n) for n in (self.spikes.steps, self.spikes.cut, self.spikes.since)
        )
        name = f"gradients of {type(self.optimizer()).__name__}"
        return Held(name, steps, cut, since or None)

    def _arrange(self) -> None:
        """Units alike into one bank, whose steps are computed together."""
        alike: dict[Any, dict[str, PAU]] = {}
        for name, unit in self.units.items():
            key = unit.degrees, unit.form, unit.q, unit.a.device, unit.a.dtype, is_sharded(unit.a)
            alike.setdefault(key, {})[name] = unit
        if alike.keys() != self.banks.keys():  # at first, and when the model was moved
            counts = self.counts()
            self.banks = {key: Bank(units, self.most) for key, units in alike.items()}
            for name, own in self.counts().items():
                own.copy_(counts.get(name, own))

    @torch.no_grad()
    def _before(self, optimizer: Optimizer, args: Any, kwargs: Any) -> Any:
        self._arrange()
        for bank in self.banks.values():
            bank.remember()
        if self.further:
            self.whole = [(p, p.clone()) for p in _parameters(optimizer)]
        if self.spikes is None:
            return None
        closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
        if closure is None:
            self._shorten(optimizer)
            return None

        def then_shortened() -> Any:
            loss = closure()
            self._shorten(optimizer)
            return loss

        return args[:1], {**kwargs, "closure": then_shortened}

    @torch.no_grad()
    def _shorten(self, optimizer: Optimizer) -> None:
        if self.spikes is not None:
            self.spikes.shorten(_parameters(optimizer))

    @torch.no_grad()
    def _after(self, optimizer: Optimizer, *_: Any) -> None:
        if not self.further:
            for bank in self.banks.values():
                bank.hold()
            return
        most = self.most * self.further
        t = min((bank.part(most) for bank in self.banks.values()), default=1.0)
        if t < 1:
            for p, before in self.whole:
                p.copy_(torch.where(p.isfinite(), before + t * (p - before), before))
        self.whole = []


def _leaves(state: Any) -> list[Tensor]:
    """Its tensors, in the order of their names."""
    if isinstance(state, dict):
        state = [state[k] for k in sorted(state)]
    return [state] if isinstance(state, Tensor) else [t for part in state for t in _leaves(part)]


def _shapes(state: Any) -> Any:
    if isinstance(state, dict):
        return {k: _shapes(v) for k, v in state.items()}
    return state.shape if isinstance(state, Tensor) else [_shapes(part) for part in state]


def _parameters(optimizer: Optimizer) -> list[Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]
