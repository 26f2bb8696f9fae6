"""Every place of a model where a unit can go, and what is known about it."""

from collections.abc import Iterator
from keyword import iskeyword
from types import BuiltinFunctionType, FunctionType

import torch
from torch import Tensor, nn

from padenet.torch.conversion.activations import (
    FUNCTIONS,
    NAMES,
    WITHOUT_START,
    Activation,
)
from padenet.torch.conversion.meaning.mentions import hooks_of, mentioned_in
from padenet.torch.conversion.meaning.roles import OUTRIGHT, UNKNOWN, is_quantised, why_left
from padenet.torch.conversion.meaning.tokens import LAYERS
from padenet.torch.conversion.net import Forwards
from padenet.torch.conversion.places import Place
from padenet.torch.conversion.reading.objects import HOLDERS
from padenet.torch.conversion.reading.stored import SEARCHES
from padenet.torch.conversion.report import Left
from padenet.torch.conversion.rewriting.in_place import is_lost, names_to_bind
from padenet.torch.conversion.rewriting.sites import Site, find
from padenet.torch.nn import PAU

FUNCTION_TYPES = (FunctionType, BuiltinFunctionType)
LOOK_UPS = SEARCHES | {"getattr", "get_submodule", "vars", "__dict__", "eval", "exec"}


class Survey:
    """``left`` is what has no place: what cannot be read, rewritten or started."""

    def __init__(self, holder: nn.Module, share: bool):
        self.holder, self.share = holder, share
        self.left: list[Left] = []
        self.flow = Forwards(holder.get_submodule("root"))
        self.found = find(self.flow)
        self.parents = list(self._parents())
        self.closed = self._closed()
        self._tell_unread()
        self.taken: set[tuple[nn.Module, str]] = set()
        self.places = list(self._places())

    def _parents(self) -> Iterator[tuple[str, nn.Module]]:
        """Modules that may hold or call activations, by path from the holder."""
        whole, inner = self.flow.whole, self.flow.inner
        for path, module in self.holder.named_modules():
            if "parametrizations" in path.split(".") or module in whole or module in inner:
                continue
            if isinstance(module, torch.jit.ScriptModule):
                self.left.append(Left(name_of(path), "it is scripted"))
            elif isinstance(module, (nn.RNNBase, nn.RNNCellBase)):
                self.left.append(Left(name_of(path), "its activations are inside torch's kernel"))
            elif isinstance(module, PAU):
                self.left.append(Left(name_of(path), "it is a unit already"))
            elif isinstance(module, WITHOUT_START):
                self.left.append(Left(name_of(path), f"{type(module).__name__} has no start"))
            else:
                yield path, module

    def _tell_unread(self) -> None:
        """What is not replaced because its text is not known, or not reached as the model is."""
        for path, parent in self.parents:
            why = self.flow.unread.get(parent)
            names = self.flow.reached[type(parent)].names if why else set()
            slots = any(c in self.flow.whole for c in parent._modules.values() if c is not None)
            functions = [
                v for v in vars(parent).values() if isinstance(v, FUNCTION_TYPES) and v in FUNCTIONS
            ]
            calls = slots or functions or NAMES & names
            if why and calls and parent not in self.flow.net.returns:
                stays = "functions that it calls stay"
                stays += ", a module is one unit however often it is called" if slots else ""
                self.left.append(Left(name_of(path), f"{why}; {stays}"))
            self.left += [
                Left(name_of(path), w) for module, w in self.found.odd if module is parent
            ]
            for hook in hooks_of(parent):
                if mentioned := ", ".join(mentioned_in(hook)):
                    self.left.append(Left(name_of(path), f"{mentioned}: it is in a hook"))
            for module, activation, line in self.found.dead:
                if module is parent:
                    why = f"{activation}: not reached as the model is set (line {line})"
                    self.left.append(Left(name_of(path), why))

    def _slots(self) -> Iterator[tuple[nn.Module, str, nn.Module, str]]:
        for path, parent in self.parents:
            for attr, child in list(parent._modules.items()):
                if child is not None and child in self.flow.whole:
                    yield parent, attr, child, path

    def _places(self) -> Iterator[Place]:
        paths = {parent: path for path, parent in self.parents}
        for parent, attr, child, path in self._slots():
            sites = self.found.by_slot.get((parent, attr), [])
            if not sites and (parent, attr) in self.found.absorbed:
                continue
            yield from self._slot(parent, attr, child, path, sites, paths)
        functions: dict[nn.Module, list[Site]] = {}
        for site in self.found.functions:
            functions.setdefault(site.module, []).append(site)
        for path, parent in self.parents:
            function = getattr(parent, "activation", None) if isinstance(parent, LAYERS) else None
            if function in FUNCTIONS:
                kind = FUNCTIONS[function]
                found = Activation(kind, kind.defaults, f"F.{kind.function.__name__}")
                like = self._like(path, "linear2", None)
                yield Place(name_of(f"{path}.activation"), parent, "activation", found, like)
            for site in sorted(functions.get(parent, []), key=lambda s: s.line):
                site.why = site.why or self.closed.get(parent, "")
                if site.why or site.change("unit") is None:
                    why = site.why or "its argument cannot be written where it is called"
                    self.left.append(
                        Left(name_of(path), f"{site.activation}: {why} ({site.where})")
                    )
                    continue
                attr = self._free(parent, site.activation.unit)
                like = self._like(path, None, _maker(site))
                name = name_of(f"{path}.{attr}")
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
    ) -> Iterator[Place]:
        """The slot itself, for its first call, and a place for each further one."""
        found, like = self.flow.whole[child], self._like(path, attr, child)
        own = [s for s in sites if s.records and not s.why and s.change("unit") is not None]
        more = [] if self.share else [s for s in own[1:] if s.module not in self.closed]
        served = tuple(s for s in sites if s not in more)
        first = Place(name_of(f"{path}.{attr}"), parent, attr, found, like, child, sites=served)
        if not sites and parent is not self.holder and not isinstance(parent, LAYERS):
            first.why = UNKNOWN if issubclass(found.kind.module, OUTRIGHT) else ""
            if self._knows(parent):
                first.why = self._why_unseen(parent, attr, child)
        yield self._judge(first)
        for site in more:
            inner = paths[parent].removeprefix(paths[site.module]).strip(".")
            label = f"{inner}_{attr}".replace(".", "_") if inner else attr
            new = self._free(site.module, label)
            name = name_of(f"{paths[site.module]}.{new}")
            yield self._judge(Place(name, site.module, new, found, like, child, first, (site,)))

    def _why_unseen(self, parent: nn.Module, attr: str, child: nn.Module) -> str:
        flow = self.flow
        reached = flow.fetched.get((parent, attr))
        if reached or flow.given_away & {parent, child}:
            return "its call cannot be followed"
        if reached is None:
            return "no forward calls it by this name"
        return "not reached as the model is set"

    def _knows(self, parent: nn.Module) -> bool:
        """Every forward can be read, and that of ``parent`` does not look for modules by name."""
        net, unread = self.flow.net, self.flow.unread
        return (
            parent in net.returns
            and all(module in net.returns for module in unread)
            and not self.flow.reached[type(parent)].names & LOOK_UPS
        )

    def _judge(self, place: Place) -> Place:
        """Say why a place is better left."""
        values = [v for site in place.sites for v in site.values]
        if any(v in self.found.parts for v in values):
            place.never = f"{place.activation} is a part of a formula that is not known"
        elif any(is_quantised(v, self.flow.net) for v in values):
            place.never = "its input is quantised"
        elif place.module in self.flow.odd:
            place.never = self.flow.odd[place.module]
        elif any(v.named and not _changes(s) for s in place.sites for v in s.values):
            place.never = "it is called with a keyword where the text cannot be changed"
        elif any(v.inplace and is_lost(v, self.flow.net) for v in values) or not all(
            _changes(s) for s in place.sites if any(map(names_to_bind, s.records))
        ):
            place.never = f"{place.activation} writes into what is read through another name"
        place.why = place.why or why_left(place.activation, values, self.flow.net)
        return place

    def _free(self, module: nn.Module, name: str) -> str:
        """``name``, or ``name_2``, ``name_3``, ...: one that the module does not use."""
        name = name if name.isidentifier() and not iskeyword(name) else f"unit_{name}"
        used = self.flow.stored | self.flow.reached[type(module)].asked
        new, i = name, 1
        while hasattr(module, new) or (module, new) in self.taken or new in used:
            i += 1
            new = f"{name}_{i}"
        self.taken.add((module, new))
        return new

    def _closed(self) -> dict[nn.Module, str]:
        """Modules to which no child can be added, and why."""
        found: dict[nn.Module, str] = {}
        for module in self.holder.modules():
            if isinstance(module, HOLDERS):
                found[module] = "it is a list of modules, where a unit would be one more"
        for module in self.flow.net.root.modules():
            if self.flow.reached[type(module)].searches:
                why = f"the forward of {type(module).__name__} goes through its children"
                found |= dict.fromkeys(module.modules(), why)
        return found

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


def _changes(site: Site) -> bool:
    """The text of its call can be changed."""
    return bool(site.records) and not site.why and site.change("") is not None


def _maker(site: Site) -> nn.Module | None:
    """The module whose result is the site's input."""
    leaf = site.leaf
    if leaf.op == "call" or leaf.slot is not None:
        made: nn.Module = leaf.data if leaf.op == "call" else leaf.slot[0]._modules[leaf.slot[1]]  # type: ignore
        return made
    return None


def name_of(path: str) -> str:
    """The name in the model of a path from the holder."""
    return path.removeprefix(".").removeprefix("root").removeprefix(".")


def _floats(module: nn.Module) -> list[Tensor]:
    tensors: list[Tensor] = [*module.parameters(), *module.buffers()]
    return [t for t in tensors if t.is_floating_point()]
