"""``convert``: every activation of a model by a unit that starts as that activation."""

import copy
import functools
import inspect
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import torch
from torch import Tensor, fx, nn

from padenet.conversion.activations import (
    FUNCTIONS,
    NAMES,
    WITHOUT_START,
    Activation,
    Beginning,
    find_beginning,
    read_module,
)
from padenet.conversion.forward import Change, rewrite, set_methods
from padenet.conversion.graphs import rewire
from padenet.conversion.in_place import is_lost
from padenet.conversion.net import Forwards
from padenet.conversion.places import Choices, Place, choose
from padenet.conversion.report import Left, Replaced, Report
from padenet.conversion.roles import OUTRIGHT, UNKNOWN, is_quantised, why_left
from padenet.conversion.sites import Site, find
from padenet.nn import PAU

LAYERS = (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)
HOOKS = (
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_backward_hooks",
    "_backward_pre_hooks",
    "_is_full_backward_hook",
)
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
    **options: Any,
) -> tuple[nn.Module, Report]:
    """A copy of ``model`` in which every activation is a unit that starts as that activation.

    Modules (``nn.ReLU``, ...), functions (``F.relu``, ``torch.relu``, ...), methods
    (``x.relu_()``, ...) and formulas (``x * torch.sigmoid(x)``, ...) are replaced, each call by a
    unit of its own: a ``self.relu`` that a forward calls twice becomes ``relu`` and ``relu_2``.
    What is a gate or leaves the model stays (docs/convert.md has the rule).

    The text of a forward with such calls is changed there and nowhere else. Nothing is run.
    Mode, device, dtype and hooks are kept.

    Args:
        model: Left as it is.
        unit: ``PAU``, ``RPAU``, or what takes their arguments.
        only, skip: Which to replace: patterns of unit names such as "layer1.*", types such as
            ``nn.ReLU`` (which stands for ``F.relu`` too), a function of name and type that
            answers True or False, or several of these. ``only`` takes gates and outputs too.
        everything: Replace gates and outputs as well.
        groups: Units a place. A PReLU with one slope a channel becomes one unit a channel.
        share: One unit for a module that is used at several places.
        options: Passed to every unit, e.g. ``aim`` or ``degrees``.

    Returns:
        The new model, and a ``Report`` of what was replaced and what was left, and why.
    """
    if isinstance(model, torch.jit.ScriptModule) or hasattr(model, "_orig_mod"):
        raise TypeError(
            f"{type(model).__name__} is scripted or compiled. Convert the model first, then "
            "script or compile it."
        )
    if isinstance(unit, functools.partial):
        options = {**unit.keywords, **options}
        unit = unit.func
    return _Conversion(copy.deepcopy(model), unit, groups, share, options).run(
        only, skip, everything
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
        self.replaced: list[Replaced] = []
        self.beginnings: dict[Any, Beginning] = {}
        self.units: dict[Any, nn.Module] = {}
        self.changes: dict[nn.Module, list[tuple[Site, Change]]] = {}

    def run(
        self, only: Choices, skip: Choices, everything: bool
    ) -> tuple[nn.Module, Report]:
        self.flow = Forwards(self.holder.get_submodule("root"))
        self.found = find(self.flow)
        self.parents = list(self._parents())
        self._tell_unread()
        places = list(self._places())
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
        return root, Report(tuple(self.replaced), tuple(self.left))

    def _parents(self) -> Iterator[tuple[str, nn.Module]]:
        """Modules that may hold or call activations, by path from the holder."""
        whole, inner = self.flow.whole, self.flow.inner
        for path, module in self.holder.named_modules():
            if "parametrizations" in path.split(".") or module in whole or module in inner:
                continue
            if isinstance(module, torch.jit.ScriptModule):
                self.left.append(Left(_name(path), "it is scripted"))
            elif isinstance(module, (nn.RNNBase, nn.RNNCellBase)):
                self.left.append(Left(_name(path), "its activations are inside torch's kernel"))
            elif isinstance(module, WITHOUT_START):
                self.left.append(Left(_name(path), f"{type(module).__name__} has no start"))
            else:
                yield path, module

    def _tell_unread(self) -> None:
        """What is not replaced because its text is not known, or not reached as the model is."""
        for path, parent in self.parents:
            why = self.flow.unread.get(parent)
            code = getattr(getattr(type(parent), "forward", None), "__code__", None)
            slots = any(c in self.flow.whole for c in parent._modules.values() if c is not None)
            functions = [v for v in vars(parent).values() if callable(v) and v in FUNCTIONS]
            if why and parent not in self.flow.net.returns:
                if slots or functions or (code is not None and NAMES & set(names_in(code))):
                    stays = "functions that it calls stay"
                    stays += ", a module that it calls twice is one unit" if slots else ""
                    self.left.append(Left(_name(path), f"{why}; {stays}"))
            for module, activation, line in self.found.dead:
                if module is parent:
                    why = f"{activation}: not reached as the model is set (line {line})"
                    self.left.append(Left(_name(path), why))

    def _slots(self) -> Iterator[tuple[nn.Module, str, nn.Module, str]]:
        for path, parent in self.parents:
            for attr, child in list(parent._modules.items()):
                if child is not None and child in self.flow.whole:
                    yield parent, attr, child, path

    def _places(self) -> Iterator[Place]:
        taken: set[tuple[nn.Module, str]] = set()
        paths = {parent: path for path, parent in self.parents}
        for parent, attr, child, path in self._slots():
            sites = self.found.by_slot.get((parent, attr), [])
            if not sites and (parent, attr) in self.found.absorbed:
                continue
            yield from self._slot(parent, attr, child, path, sites, paths, taken)
        functions: dict[nn.Module, list[Site]] = {}
        for site in self.found.functions:
            functions.setdefault(site.module, []).append(site)
        for path, parent in self.parents:
            function = getattr(parent, "activation", None) if isinstance(parent, LAYERS) else None
            if function in FUNCTIONS:
                kind = FUNCTIONS[function]
                found = Activation(kind, kind.defaults, f"F.{kind.function.__name__}")
                like = self._like(path, "linear2", None)
                yield Place(_name(f"{path}.activation"), parent, "activation", found, like)
            for site in sorted(functions.get(parent, []), key=lambda s: s.line):
                if site.why or site.change("unit") is None:
                    why = site.why or "its argument cannot be written where it is called"
                    self.left.append(Left(_name(path), f"{site.activation}: {why} ({site.where})"))
                    continue
                attr = _free(parent, site.activation.unit, taken)
                like = self._like(path, None, _maker(site))
                name = _name(f"{path}.{attr}")
                place = Place(name, parent, attr, site.activation, like, sites=(site,))
                yield self._judge(place)

    def _slot(
        self,
        parent: nn.Module,
        attr: str,
        child: nn.Module,
        path: str,
        sites: list[Site],
        paths: dict[nn.Module, str],
        taken: set[tuple[nn.Module, str]],
    ) -> Iterator[Place]:
        """The slot itself, for its first call, and a place for each further one."""
        found, like = self.flow.whole[child], self._like(path, attr, child)
        own = [s for s in sites if s.records and not s.why and s.change("unit") is not None]
        more = [] if self.share else own[1:]
        served = tuple(s for s in sites if s not in more)
        first = Place(_name(f"{path}.{attr}"), parent, attr, found, like, child, sites=served)
        if not sites and parent is not self.holder and not isinstance(parent, LAYERS):
            first.why = UNKNOWN if issubclass(found.kind.module, OUTRIGHT) else ""
            if self._knows(parent):
                first.why = "no forward calls it"
        yield self._judge(first)
        for site in more:
            before, _, _ = attr.rpartition(".")
            label = attr if parent is site.module else f"{paths[parent]}_{attr}".replace(".", "_")
            new = _free(site.module, label.split("root_")[-1] + before, taken)
            name = _name(f"{paths[site.module]}.{new}")
            yield self._judge(Place(name, site.module, new, found, like, child, first, (site,)))

    def _knows(self, parent: nn.Module) -> bool:
        """Every forward can be read, and that of ``parent`` does not look for modules by name."""
        net, unread = self.flow.net, self.flow.unread
        forward = inspect.unwrap(type(parent).forward)
        code = getattr(forward, "__code__", None)
        return (
            parent in net.returns
            and code is not None
            and all(module in net.returns for module in unread)
            and not set(names_in(code)) & {"getattr", "children", "modules", "_modules"}
        )

    def _judge(self, place: Place) -> Place:
        """Say why a place is better left."""
        values = [v for site in place.sites for v in site.values]
        if any(v in self.found.parts for v in values):
            place.never = f"{place.activation} is a part of a formula that is not known"
        elif any(is_quantised(v, self.flow.net) for v in values):
            place.never = "its input is quantised"
        elif any(v.inplace and is_lost(v) for v in values):
            place.never = f"{place.activation} writes into what is read through another name"
        place.why = place.why or why_left(place.activation, values, self.flow.net)
        return place

    def _like(self, path: str, attr: str | None, module: nn.Module | None) -> Tensor | None:
        """A tensor near ``attr`` of the module at ``path``, whose device and dtype to take."""
        near = _floats(module) if module is not None else []
        while not near:
            parent = self.holder.get_submodule(path)
            for name, child in parent._modules.items():
                if name == attr:
                    break
                near += _floats(child) if child is not None and attr is not None else []
            near = near or _floats(parent)[:1]
            if not path:
                break
            path, _, attr = path.rpartition(".")
        return near[-1] if near else None

    def _replace(self, place: Place) -> None:
        unit = self.units.get(place.module) if self.share else None
        if unit is None:
            unit, beginning = self._make(place)
            self.units[place.module if self.share and place.module else place] = unit
            was = str(place.activation)
            was += ", in a loop" if any(site.in_loop for site in place.sites) else ""
            done = Replaced(place.name, was, beginning.name, beginning.rms)
            self.replaced.append(done)
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


def _maker(site: Site) -> nn.Module | None:
    """The module whose result is the site's input."""
    leaf = site.leaf
    if leaf.op == "call" or leaf.slot is not None:
        made: nn.Module = leaf.data if leaf.op == "call" else leaf.slot[0]._modules[leaf.slot[1]]  # type: ignore
        return made
    return None


def names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from names_in(constant)


def _name(path: str) -> str:
    """The name in the model of a path from the holder."""
    return path.removeprefix(".").removeprefix("root").removeprefix(".")


def _free(module: nn.Module, name: str, taken: set[tuple[nn.Module, str]]) -> str:
    """``name``, or ``name_2``, ``name_3``, ...: one that the module does not use."""
    new, i = name, 1
    while hasattr(module, new) or (module, new) in taken:
        i += 1
        new = f"{name}_{i}"
    taken.add((module, new))
    return new


def _floats(module: nn.Module) -> list[Tensor]:
    tensors: list[Tensor] = [*module.parameters(), *module.buffers()]
    return [t for t in tensors if t.is_floating_point()]
