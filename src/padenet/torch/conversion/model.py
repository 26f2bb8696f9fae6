"""``convert``: replaces every hidden activation of a model by a unit initialised to match it."""

import copy
import functools
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx, nn

from padenet.torch.conversion.activations import HOOKS, Activation, Beginning, find_beginning
from padenet.torch.conversion.calibration import Seen
from padenet.torch.conversion.calibration import calibrate as fit_to_inputs
from padenet.torch.conversion.meaning.tokens import DIVIDED, told_of_groups
from padenet.torch.conversion.places import Choices, Place, choose
from padenet.torch.conversion.report import Left, Replaced, Report, judge
from padenet.torch.conversion.rewriting.forward import Change, rewrite, set_methods
from padenet.torch.conversion.rewriting.graphs import rewire
from padenet.torch.conversion.rewriting.sites import Site
from padenet.torch.conversion.survey import Survey
from padenet.torch.nn import PAU

KEY_HOOKS = (
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)


def convert(
    model: nn.Module,
    *,
    unit: Callable[..., nn.Module] = PAU,
    only: Choices = None,
    skip: Choices = None,
    groups: int = 1,
    share: bool = False,
    everything: bool = False,
    calibrate: Any = None,
    **options: Any,
) -> tuple[nn.Module, Report]:
    """A copy of ``model``, in which every hidden activation is a unit initialised to match it.

    Modules (``nn.ReLU``, ...), functions (``F.relu``, ``torch.relu``, ...), methods
    (``x.relu_()``, ...) and formulas (``x * torch.sigmoid(x)``, ...) are replaced, each call by a
    unit of its own: a ``self.relu`` that a forward calls twice becomes ``relu`` and ``relu_2``.
    What is a gate or leaves the model stays (docs/convert.md has the rule).

    The text of a forward with such calls is changed there and nowhere else. Nothing is run, but
    for ``calibrate``.
    Mode, device, dtype and hooks are kept.

    Args:
        model: Not changed.
        unit: ``PAU``, ``RPAU``, or what takes their arguments.
        only, skip: Which to replace: patterns of unit names such as "layer1.*", types such as
            ``nn.ReLU`` (which stands for ``F.relu`` too), a function of name and type that
            answers True or False, or several of these. ``only`` takes gates and outputs too.
        everything: Replace gates and outputs as well.
        groups: Units per place. A PReLU with a slope per channel becomes a unit per channel.
        share: One unit for a module that is used at several places.
        calibrate: Data by which each unit is fitted to the inputs that its own layer sees: a batch
            as the model's forward takes it (a tensor, a tuple of arguments, a dict of keyword
            arguments), an iterable of batches, or a function that runs the model,
            ``lambda model: ...``. Needs scipy.
        options: Passed to every unit, e.g. ``aim`` or ``degrees``.

    Returns:
        The new model, and a ``Report`` of what was replaced and what was left, and why.
    """
    if not isinstance(model, nn.Module):
        what = model.__name__ if isinstance(model, type) else type(model).__name__
        made = f" Make one first: {what}(…)." if isinstance(model, type) else ""
        raise TypeError(f"convert takes a model, a torch.nn.Module, not {what}.{made}")
    if isinstance(model, torch.jit.ScriptModule) or hasattr(model, "_orig_mod"):
        raise TypeError(
            f"{type(model).__name__} is scripted or compiled. Convert the model first, then "
            "trace or compile it."
        )
    if isinstance(unit, functools.partial):
        options = {**unit.keywords, **options}
        unit = unit.func
    return _Conversion(copy.deepcopy(model), unit, groups, share, options).run(
        only, skip, everything, calibrate
    )


class _Conversion:
    """One call of ``convert``, on a copy: what fails leaves the caller's model alone."""

    def __init__(
        self,
        root: nn.Module,
        unit: Callable[..., nn.Module],
        groups: int,
        share: bool,
        options: dict[str, Any],
    ):
        self.holder = nn.Module()  # so that the model may itself be an activation
        self.holder.add_module("root", root)
        self.unit, self.groups, self.share, self.options = unit, groups, share, options
        self.left: list[Left] = []
        self.made: dict[str, tuple[nn.Module, Activation, str, str]] = {}
        self.divided: dict[str, str] = {}  # units by name, and what their groups may divide
        self.beginnings: dict[Any, Beginning] = {}
        self.units: dict[Any, nn.Module] = {}
        self.changes: dict[nn.Module, list[tuple[Site, Change]]] = {}

    def run(
        self, only: Choices, skip: Choices, everything: bool, data: Any
    ) -> tuple[nn.Module, Report]:
        survey = Survey(self.holder, self.share)
        self.left, places, self.net = survey.left, survey.places, survey.flow.net
        whys = choose(places, only, skip, everything)
        for place, why in zip(places, whys, strict=True):
            if why:
                self.left.append(Left(place.name, why))
                self._keep(place)
            else:
                self._replace(place)
        self._rewrite()
        for module in self.holder.modules():
            if isinstance(module, nn.TransformerEncoder):  # nested only for the fused kernel
                fused = [getattr(layer, "activation_relu_or_gelu", 1) for layer in module.layers]
                module.use_nested_tensor = module.use_nested_tensor and all(fused)
        root = self.holder.get_submodule("root")
        seen: Mapping[str, Seen] = {}
        if data is not None:
            made = self.made.items()
            units = {name: (u, act) for name, (u, act, *_) in made if isinstance(u, PAU)}
            seen = fit_to_inputs(root, units, data)
        replaced = [
            self._tell_of_groups(judge(name, was, start, unit, activation, seen.get(name)))
            for name, (unit, activation, was, start) in self.made.items()
        ]
        doubtful = [r.name for r in replaced if DIVIDED in r.warning]
        if doubtful:
            more = f" and {len(doubtful) - 4} more" if len(doubtful) > 4 else ""
            text = f"{', '.join(doubtful[:4])}{more}: {DIVIDED}"
            warnings.warn(text, stacklevel=3)
        return root, Report(tuple(replaced), tuple(self.left))

    def _tell_of_groups(self, entry: Replaced) -> Replaced:
        text = self.divided.get(entry.name, "")
        if text == DIVIDED:
            return entry._replace(warning="; ".join(filter(None, (entry.warning, text))))
        return entry._replace(note=text)

    def _replace(self, place: Place) -> None:
        unit = self.units.get(place.module) if self.share else None
        if unit is None:
            unit, beginning = self._make(place)
            self.units[place.module if self.share and place.module else place] = unit
            was = str(place.activation)
            was += ", in a loop" if any(site.in_loop for site in place.sites) else ""
            self.made[place.name] = (unit, place.activation, was, beginning.name)
            if self.groups > 1 and "channel_dim" not in self.options:
                self.divided[place.name] = told_of_groups(place, self.net)
        setattr(place.holder, place.attr, unit)
        if isinstance(place.holder, nn.TransformerEncoderLayer):
            place.holder.activation_relu_or_gelu = 0  # or evaluation would not call the unit
        own = place.module is not None and place.first is None
        self._change(place, "" if own else place.attr)

    def _make(self, place: Place) -> tuple[nn.Module, Beginning]:
        activation, options = place.activation, {"groups": self.groups, **self.options}
        slopes = activation.slopes or ()
        if len(slopes) > 1:
            options |= {"groups": len(slopes), "channel_dim": 1}
        spec = (
            tuple(options.get("degrees", (5, 4))),
            options.get("form", "safe"),
            options.get("q", 1.0),
            options.get("aim"),
        )
        key = (activation.key, spec)
        if key not in self.beginnings:
            self.beginnings[key] = find_beginning(activation, *spec)
        if place.like is not None:
            options = {"device": place.like.device, "dtype": place.like.dtype, **options}
        init = self.beginnings[key].init
        if not isinstance(init, str):
            options = {k: v for k, v in options.items() if k != "aim"}  # it is in the coefficients
        unit = self.unit(init, **options)
        if self.share and isinstance(unit, PAU):
            unit.shared = True  # its state says so
        old = place.module
        unit.train((place.holder if old is None else old).training)
        if old is not None:
            for name in HOOKS:
                setattr(unit, name, copy.copy(getattr(old, name)))
            if any(getattr(old, name) for name in KEY_HOOKS):
                self.left.append(Left(place.name, "the hooks on the old module's state_dict"))
        return unit, self.beginnings[key]

    def _change(self, place: Place, attr: str) -> None:
        """Let the calls of a place be those of ``attr``, or what they are, if that is ""."""
        for site in place.sites:
            if not site.records:
                continue
            change = site.change(attr)
            named = any(value.named for value in site.values)
            if change is not None and (attr or change.names or named):
                self.changes.setdefault(site.module, []).append((site, change))

    def _keep(self, place: Place) -> None:
        """A place that is not chosen keeps the old module, also where the slot holds a unit."""
        if place.first is not None and place.first in self.units:
            setattr(place.holder, place.attr, place.module)
            self._change(place, place.attr)

    def _rewrite(self) -> None:
        for module, pairs in self.changes.items():
            if isinstance(module, fx.GraphModule):
                rewire(module, pairs)
                continue
            methods: dict[str, dict[Any, Change]] = {}
            sources = {}
            for site, change in pairs:
                owner = site.records[0].frame.owner
                sources[owner.method] = owner.source
                methods.setdefault(owner.method, {})[site.records[0].node] = change
            texts = {name: rewrite(sources[name], c) for name, c in methods.items()}
            set_methods(module, texts)
