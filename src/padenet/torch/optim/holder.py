"""The hooks on one optimiser, and the units that it trains."""

import sys
import weakref
from collections.abc import Iterator
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from padenet.torch.nn import PAU
from padenet.torch.optim.bank import Bank, Held, check, is_sharded
from padenet.torch.optim.spikes import Spikes

# An optimiser that searches along a line: its step is one whole, weights and all, and a search of
# its own kept it sound on the data. It may go further by this factor, and is shortened as a whole.
WHOLE_STEPS = {"LBFGS": 1000.0}
_STEP = Optimizer.profile_hook_step(lambda: None).__code__  # what runs the hooks around a step
_HOLDERS: "weakref.WeakKeyDictionary[Optimizer, list[Holder]]" = weakref.WeakKeyDictionary()


class Holder:
    """Of one call of ``stabilize`` and one optimiser."""

    def __init__(
        self,
        optimizer: Optimizer,
        units: dict[str, PAU],
        model: nn.Module,
        most: float,
        spike: float | None,
    ):
        self.optimizer, self.model = weakref.ref(optimizer), weakref.ref(model)
        self.units, self.most, self.kind = units, most, type(optimizer).__name__
        self.further = find_kind(optimizer, WHOLE_STEPS)
        self.size = _size(optimizer)
        device = next((p.device for p in parameters(optimizer)), torch.device("cpu"))
        self.spikes = None if self.further or spike is None else Spikes(spike, device)
        self.whole: list[tuple[Tensor, Tensor]] = []  # parameters before a step that is one whole
        self.depth = 0  # 1 in a step, 2 in that of its base class, which has the same hooks
        self.banks: dict[Any, Bank] = {}
        self.seen: list[tuple[Any, ...]] = []  # of the units, when they were put into banks
        self.starts: list[Any] = []  # theirs; kept, so that no other start has the same id
        self._arrange()
        self._follow(list(_HOLDERS.get(optimizer, [])))
        before, after = map(torch.compiler.disable, (self._before, self._after))  # not traced
        self.handles = [
            optimizer.register_step_pre_hook(before),
            optimizer.register_step_post_hook(after),
        ]
        _HOLDERS.setdefault(optimizer, []).append(self)

    def _follow(self, earlier: "list[Holder]") -> None:
        """Go on where earlier calls stood. They give up the gradients, and the units that are here.

        Twice is once: a net may be handed over in a loop.
        """
        mine = {id(unit): name for name, unit in self.units.items()}
        counts = self.counts()
        for other in earlier:
            if self.spikes is not None and other.spikes is not None:
                self.spikes.load(other.spikes)
            for name, own in other.counts().items():
                if (same := mine.get(id(other.units[name]))) is not None:
                    counts[same].copy_(own)
            kept = {name: unit for name, unit in other.units.items() if id(unit) not in mine}
            if kept:
                other.units, other.spikes = kept, None
                other._arrange()
            else:
                other.remove()

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
        return Held(f"gradients of {self.kind}", steps, cut, since or None)

    def _arrange(self) -> None:
        """Put units of one kind into a bank, which computes their steps together."""
        own = [(u._parameters.get("a"), u._parameters.get("b")) for u in self.units.values()]
        starts = [u.init for u in self.units.values()]
        seen = [
            (id(a), id(b), a.dtype, a.device, a.numel(), b.numel(), b.requires_grad, id(start))
            if a is not None and b is not None
            else ()
            for (a, b), start in zip(own, starts, strict=True)
        ]
        if seen == self.seen:
            return
        self.seen, self.starts, counts = seen, starts, self.counts()
        alike: dict[Any, dict[str, PAU]] = {}
        for name, unit in self.units.items():
            check(name, unit)
            a, b = unit.a, unit.b
            key = unit.degrees, unit.form, unit.q, a.device, a.dtype, is_sharded(a), b.requires_grad
            alike.setdefault(key, {})[name] = unit
        self.banks = {key: Bank(units, self.most) for key, units in alike.items()}
        for name, now in self.counts().items():
            if name in counts and counts[name].shape == now.shape:
                now.copy_(counts[name])

    def _adopt(self, optimizer: Optimizer) -> None:
        """Units that the optimiser has been given since: unfrozen ones, or new in the model."""
        model = self.model()
        if self.size == _size(optimizer) or model is None:
            return
        self.size = _size(optimizer)
        given = {id(p) for p in parameters(optimizer)}
        for name, unit in units_of(model).items():
            if not who_holds(unit) and given & {id(unit.a), id(unit.b)}:
                self.units[name] = unit

    @torch.no_grad()
    def _before(self, optimizer: Optimizer, args: Any, kwargs: Any) -> Any:
        if self.depth and _is_nested(optimizer):
            self.depth += 1
            return None
        self.depth = 1
        self._adopt(optimizer)
        self._arrange()
        for bank in self.banks.values():
            bank.remember()
        if self.further:
            self.whole = [(p, p.clone()) for p in parameters(optimizer)]
        if self.spikes is None:
            return None
        closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
        if not callable(closure):
            self._shorten(optimizer)
            return None

        def then_shortened() -> Any:
            loss = closure()
            self._shorten(optimizer)
            return loss

        if "closure" in kwargs:
            return args, {**kwargs, "closure": then_shortened}
        return (args[0], then_shortened, *args[2:]), kwargs

    @torch.no_grad()
    def _shorten(self, optimizer: Optimizer) -> None:
        if self.spikes is not None:
            scale = getattr(optimizer, "grad_scale", None)  # a GradScaler's, which fused ones undo
            self.spikes.shorten(parameters(optimizer), scale)

    @torch.no_grad()
    def _after(self, optimizer: Optimizer, *_: Any) -> None:
        self.depth -= 1
        if self.depth:
            return
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


def units_of(model: nn.Module) -> dict[str, PAU]:
    return {name or "model": m for name, m in model.named_modules() if isinstance(m, PAU)}


def who_holds(unit: PAU) -> list[Optimizer]:
    """The optimisers with a hook that holds ``unit``."""
    alive = [optimizer for ref in _HOLDERS.keyrefs() if (optimizer := ref()) is not None]
    return [
        optimizer
        for optimizer in alive
        if any(own is unit for holder in _HOLDERS[optimizer] for own in holder.units.values())
    ]


def _is_nested(optimizer: Optimizer) -> bool:
    """Whether a step of it called this one, as that of a subclass calls its base's.

    The stack says it for certain: an exception in a step leaves no other trace.
    """
    steps = 0
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        steps += frame.f_code is _STEP and frame.f_locals.get("self") is optimizer
        frame = frame.f_back
    return steps > 1


def find_kind(optimizer: Optimizer, kinds: dict[str, Any]) -> Any:
    """What the table says of its class, or of one that it is made from."""
    names = (c.__name__ for c in type(optimizer).__mro__)
    return next((kinds[name] for name in names if name in kinds), None)


def parameters(optimizer: Optimizer) -> list[Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _size(optimizer: Optimizer) -> int:
    return sum(len(group["params"]) for group in optimizer.param_groups)
