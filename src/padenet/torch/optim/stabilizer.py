"""``stabilize(model, optimizer)``: no step of an optimiser makes a unit blow up."""

import warnings
from collections.abc import Iterable
from typing import Any, NoReturn

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from padenet.torch import trust
from padenet.torch.nn import PAU
from padenet.torch.optim.bank import Held, check
from padenet.torch.optim.holder import Holder, find_kind, units_of, who_holds
from padenet.torch.optim.spikes import SPIKE

MATRICES_ONLY = {"Muon": True}  # optimisers that treat what is two-dimensional as a linear map


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
    function, and shortened where that is more than ``most`` (``padenet.torch.trust``). Besides,
    gradients that are suddenly ``spike`` times as large as usual, those of the weights too, are
    shortened to that (``padenet.torch.optim.spikes``): near the highest rate at which a net trains,
    a unit would turn them into infinity where ReLU forgets them.

    It works with any optimiser of torch, closures, schedulers and gradient scalers, under DDP and
    FSDP2, and inside CUDA graphs, and costs a fraction of a millisecond per step. A compiled step
    runs it uncompiled, before and after; ``fullgraph=True`` does not allow that.

    It is a pair of hooks on ``optimizer.step``. Pickling or copying an optimiser drops its hooks:
    call it again for the copy. ``load_state_dict`` keeps them. Calling it twice is calling it once;
    where two calls differ the last one counts. Units that ``add_param_group`` brings later, such as
    thawed ones, are held too.

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
    if not isinstance(model, nn.Module):
        raise TypeError(
            f"stabilize(model, optimizer) takes a model first, a torch.nn.Module, not "
            f"{type(model).__name__}."
        )
    given: Any = optimizer if isinstance(optimizer, Iterable) else [optimizer]
    optimizers = list(dict.fromkeys(given))
    for o in optimizers:
        if not isinstance(o, Optimizer):
            raise TypeError(f"optimizer={o!r} is not a torch.optim.Optimizer.")
        if not hasattr(o, "_optimizer_step_pre_hooks"):
            raise TypeError(
                f"{type(o).__name__} runs no hooks, since its __init__ does not call that of "
                "torch.optim.Optimizer. Give the optimizer inside it."
            )
    units = units_of(model)
    if not units:
        raise ValueError(
            "model has no unit to stabilize. Call padenet.convert first, or leave this out."
        )
    held, left = _share_out(units, optimizers)
    holders = [Holder(o, own, model, most, spike) for o, own in zip(optimizers, held, strict=True)]
    return Stabilizer(holders, list(units), left)


class Stabilizer:
    """What ``stabilize`` returns: what was done so far, and a way to end it."""

    def __init__(self, holders: list[Holder], names: list[str], left: list[str]):
        self._holders, self._names, self._left = holders, names, left

    @property
    def left(self) -> tuple[str, ...]:
        """The names of units that the optimisers do not train."""
        adopted = {name for holder in self._holders for name in holder.units}
        return tuple(name for name in self._left if name not in adopted)

    def remove(self) -> None:
        """No longer hold the units."""
        for holder in self._holders:
            holder.remove()

    def report(self) -> tuple[Held, ...]:
        """What was done to each unit so far. Waits for the device."""
        found = {held.name: held for holder in self._holders for held in holder.report()}
        names = dict.fromkeys([*self._names, *found])  # those of later units last
        return tuple(found[name] for name in names if name in found)

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

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Stabilizer is a pair of hooks on an optimizer, which cannot be copied or pickled. "
            "Keep its state_dict(), and call padenet.stabilize for the copy."
        )

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
    shares: list[dict[str, PAU]] = [{} for _ in optimizers]
    left: list[str] = []
    decaying: list[str] = []
    owners: dict[int, str] = {}
    for name, unit in units.items():
        own = [p for p in unit.parameters() if p.requires_grad] or list(unit.parameters())
        places = sorted({i for i, h in enumerate(holds) for p in own if id(p) in h})
        elsewhere = any(o not in optimizers for o in who_holds(unit))
        if len(places) > 1 or (places and elsewhere):
            raise ValueError(
                f"the coefficients of unit {name!r} are in two optimizers, so that neither knows "
                "what a step of both does. Leave them to one of them. If the other is one of "
                "before, call remove() of its Stabilizer, or delete it and its scheduler."
            )
        if own and not places:
            left.append(name)
            continue
        check(name, unit)
        for p in own:
            other = owners.setdefault(id(p), name)
            if _tie(units[other]) != _tie(unit):
                raise ValueError(
                    f"units {other!r} and {name!r} share a or b and differ in the rest, so that a "
                    "step cannot be measured by one function. Share both, or neither."
                )
        if find_kind(optimizers[places[0]], MATRICES_ONLY):
            kind = type(optimizers[places[0]]).__name__
            raise ValueError(
                f"the coefficients of unit {name!r} are in {kind}, which is for matrices. Give it "
                'the group "matrices" of padenet.param_groups(model, lr=…, matrices=True), and the '
                "other groups to another optimizer."
            )
        if any(holds[places[0]].get(id(p), {}).get("weight_decay") for p in own):
            decaying.append(name)
        shares[places[0]][name] = unit
    frozen = not any(p.requires_grad for u in units.values() for p in u.parameters())
    if len(left) == len(units) or frozen:
        why = (
            "they do not require gradients"
            if frozen
            else "build it from padenet.param_groups(model, lr=…) or model.parameters()"
        )
        raise ValueError(
            f"the optimizer holds no coefficient of the {len(units)} units of model, such as "
            f"{next(iter(units))!r}: {why}."
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


def _tie(unit: PAU) -> tuple[Any, ...]:
    """What units that share coefficients have in common."""
    return id(unit.a), id(unit.b), unit.form, unit.q


def _leaves(state: Any) -> list[Tensor]:
    """Its tensors, in the order of their names."""
    if isinstance(state, dict):
        state = [state[k] for k in sorted(state)]
    return [state] if isinstance(state, Tensor) else [t for part in state for t in _leaves(part)]


def _shapes(state: Any) -> Any:
    if isinstance(state, dict):
        return {k: _shapes(v) for k, v in state.items()}
    if isinstance(state, list):
        return [_shapes(part) for part in state]
    return state.shape if isinstance(state, Tensor) else type(state)
