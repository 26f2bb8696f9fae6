"""``convert``: every activation of a model by a unit that starts as that activation."""

import copy
import functools
from collections.abc import Callable, Iterator, Mapping
from types import BuiltinFunctionType, FunctionType
from typing import Any

import torch
from torch import Tensor, fx, nn

from padenet.convert.activations import (
    FUNCTIONS,
    NAMES,
    WITHOUT_START,
    Activation,
    Beginning,
    find_beginning,
    input_of,
    read_module,
    read_node,
)
from padenet.convert.calibration import Seen
from padenet.convert.calibration import calibrate as fit_to_inputs
from padenet.convert.forward import names_in, set_forward, trace
from padenet.convert.in_place import is_lost
from padenet.convert.places import Choices, Place, Use, choose
from padenet.convert.report import Left, Report, judge
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
FUNCTION_TYPES = (FunctionType, BuiltinFunctionType)
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
    calibrate: Any = None,
    **options: Any,
) -> tuple[nn.Module, Report]:
    """A copy of ``model`` in which every activation is a unit that starts as that activation.

    Modules (``nn.ReLU``, ...), functions (``F.relu``, ``torch.relu``, ...) and methods
    (``x.relu_()``, ...) are replaced, each call by a unit of its own: a ``self.relu`` that a
    forward calls twice becomes ``relu`` and ``relu_2``. Mode, device, dtype and hooks are kept.

    A forward with such calls is rewritten through ``torch.fx``, one module at a time. Where that
    is not possible its child modules are replaced all the same, and the report says what stays.

    Args:
        model: Left as it is.
        unit: ``PAU``, ``RPAU``, or what takes their arguments.
        only, skip: Which to replace: patterns of unit names such as "layer1.*", types such as
            ``nn.ReLU`` (which stands for ``F.relu`` too), a function of name and type that
            answers True or False, or several of these.
        groups: Units a place. A PReLU with one slope a channel becomes one unit a channel.
        share: One unit for a module that is used at several places.
        calibrate: Data by which each unit is fitted to the inputs that its own layer sees: a batch
            as the model's forward takes it (a tensor, a tuple of arguments, a dict of keyword
            arguments), an iterable of batches, or a function that runs the model,
            ``lambda model: ...``. Needs scipy.
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
        only, skip, calibrate
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
        self.made: dict[str, tuple[nn.Module, Activation, str]] = {}
        self.graphs: dict[nn.Module, fx.Graph] = {}
        self.originals: dict[tuple[nn.Module, str], nn.Module] = {}
        self.beginnings: dict[Any, Beginning] = {}
        self.units: dict[Any, nn.Module] = {}
        self.rewritten: set[nn.Module] = set()

    def run(self, only: Choices, skip: Choices, data: Any) -> tuple[nn.Module, Report]:
        self.parents = list(self._parents())
        if not self.share:
            self._separate()
        for path, parent in self.parents:
            self._trace(path, parent)
        places = list(self._places())
        written = {use.node for p in places if p.activation.inplace for use in p.uses}
        lost = [any(is_lost(use.node, written) for use in p.uses) for p in places]
        for place, why, no in zip(places, choose(places, only, skip), lost, strict=True):
            if why or no:
                why = why or f"{place.activation} writes into what is read through another name"
                self.left.append(Left(place.name, why))
                self._keep(place)
            else:
                self._replace(place)
        for parent in self.rewritten:
            set_forward(parent, self.graphs[parent])
        for module in self.holder.modules():
            if isinstance(module, nn.TransformerEncoder):  # nested only for the fused kernel
                fused = [getattr(layer, "activation_relu_or_gelu", 1) for layer in module.layers]
                module.use_nested_tensor = module.use_nested_tensor and all(fused)
        root = self.holder.get_submodule("root")
        seen: Mapping[str, Seen] = {}
        if data is not None:
            made = self.made.items()
            units = {name: (u, act) for name, (u, act, _) in made if isinstance(u, PAU)}
            seen = fit_to_inputs(root, units, data)
        replaced = [
            judge(name, str(activation), start, unit, activation, seen.get(name))
            for name, (unit, activation, start) in self.made.items()
        ]
        return root, Report(tuple(replaced), tuple(self.left))

    def _parents(self) -> Iterator[tuple[str, nn.Module]]:
        """Modules that may hold or call activations, by path from the holder."""
        for path, module in self.holder.named_modules():
            if "parametrizations" in path.split(".") or read_module(module) is not None:
                continue
            if isinstance(module, torch.jit.ScriptModule):
                self.left.append(Left(_name(path), "it is scripted"))
            elif isinstance(module, (nn.RNNBase, nn.RNNCellBase)):
                self.left.append(Left(_name(path), "its activations are inside torch's kernel"))
            elif isinstance(module, WITHOUT_START):
                self.left.append(Left(_name(path), f"{type(module).__name__} has no start"))
            else:
                yield path, module

    def _separate(self) -> None:
        """Give each slot an activation object of its own, so that a trace tells them apart."""
        seen: set[nn.Module] = set()
        for parent, attr, child, _ in self._slots():
            if child in seen:
                self.originals[parent, attr] = child
                parent._modules[attr] = copy.copy(child)
            seen.add(child)

    def _slots(self) -> Iterator[tuple[nn.Module, str, nn.Module, str]]:
        for path, parent in self.parents:
            for attr, child in list(parent._modules.items()):
                if child is not None and read_module(child) is not None:
                    yield parent, attr, child, path

    def _trace(self, path: str, parent: nn.Module) -> None:
        forward = type(parent).forward
        known = str(getattr(forward, "__module__", "")).startswith("torch.")
        if known and not isinstance(parent, fx.GraphModule):
            return
        graph = trace(parent)
        if isinstance(graph, fx.Graph):
            self.graphs[parent] = graph
            return
        slots = any(c is not None and read_module(c) for c in parent._modules.values())
        functions = [v for v in vars(parent).values() if isinstance(v, FUNCTION_TYPES)]
        calls = NAMES & set(names_in(forward, type(parent))) or FUNCTIONS.keys() & set(functions)
        if calls or slots:
            stays = "functions that it calls stay"
            stays += ", a module that it calls twice is one unit" if slots else ""
            self.left.append(Left(_name(path), f"{graph}; {stays}"))

    def _places(self) -> Iterator[Place]:
        calls: dict[tuple[nn.Module, str], list[Use]] = {}
        for path, parent in self.parents:
            for node in self._nodes(parent):
                if node.op == "call_module":
                    prefix, _, attr = str(node.target).rpartition(".")
                    slot = (parent.get_submodule(prefix), attr)
                    calls.setdefault(slot, []).append(Use(parent, node, path))
        taken: set[tuple[nn.Module, str]] = set()
        for parent, attr, child, path in self._slots():
            found = read_module(child)
            assert found is not None
            like = self._like(path, attr, child)
            uses = tuple(calls.get((parent, attr), ()))
            first = Place(_name(f"{path}.{attr}"), parent, attr, found, like, child)
            first.uses = uses if self.share else uses[:1]
            yield first
            for use in () if self.share else uses[1:]:
                new = _free(use.caller, str(use.node.target).replace(".", "_"), taken)
                name = _name(f"{use.path}.{new}")
                yield Place(name, use.caller, new, found, like, child, first, (use,))
        for path, parent in self.parents:
            function = getattr(parent, "activation", None) if isinstance(parent, LAYERS) else None
            if function in FUNCTIONS and parent not in self.graphs:
                kind = FUNCTIONS[function]
                found = Activation(kind, kind.defaults, f"F.{kind.function.__name__}")
                like = self._like(path, "linear2", None)
                yield Place(_name(f"{path}.activation"), parent, "activation", found, like)
            for node in self._nodes(parent):
                read = read_node(node)
                if isinstance(read, str):
                    self.left.append(Left(_name(path), read))
                elif read is not None:
                    attr = _free(parent, read.spelling.rpartition(".")[2].rstrip("_"), taken)
                    before = input_of(node)
                    maker = before.op == "call_module" and parent.get_submodule(str(before.target))
                    like = self._like(path, None, maker or None)
                    use = Use(parent, node, path)
                    name = _name(f"{path}.{attr}")
                    yield Place(name, parent, attr, read, like, uses=(use,))

    def _nodes(self, parent: nn.Module) -> list[fx.Node]:
        return list(self.graphs[parent].nodes) if parent in self.graphs else []

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
            self.made[place.name] = (unit, place.activation, beginning.name)
        setattr(place.holder, place.attr, unit)
        if isinstance(place.holder, nn.TransformerEncoderLayer):
            place.holder.activation_relu_or_gelu = 0  # or evaluation would not call the unit
        for use in place.uses:
            self._rewire(place, use)

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

    def _rewire(self, place: Place, use: Use) -> None:
        """Let the call be one of the unit, where it is not yet."""
        node, graph = use.node, self.graphs[use.caller]
        x = input_of(node)
        nodes = list(graph.nodes)
        later = set(nodes[nodes.index(node) + 1 :]) if place.activation.inplace else set()
        own = node.op == "call_module" and place.first is None
        if own and not node.kwargs and not later & set(x.users):
            return
        with graph.inserting_after(node):
            target = str(node.target) if own else place.attr
            new = graph.create_node("call_module", target, (x,))
        node.replace_all_uses_with(new)
        x.replace_all_uses_with(new, delete_user_cb=lambda n: n in later and n is not new)
        graph.erase_node(node)
        self.rewritten.add(use.caller)

    def _keep(self, place: Place) -> None:
        """A place that is not chosen: the old module, also where the slot now holds a unit."""
        slot = place.first or place
        old = self.originals.get((slot.holder, slot.attr), place.module)
        if place.first is None:
            if old is not None:
                setattr(place.holder, place.attr, old)
        elif slot in self.units:
            setattr(place.holder, place.attr, old)
            for use in place.uses:
                use.node.target = place.attr
                self.rewritten.add(use.caller)


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
