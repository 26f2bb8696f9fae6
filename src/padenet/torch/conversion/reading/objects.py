"""Values of the objects that a forward reaches: modules, their attributes, lists, settings."""

import inspect
from collections.abc import Callable, Hashable, Iterable, Mapping
from types import MethodType, ModuleType
from typing import Any

import torch
from torch import nn

from padenet.torch.conversion.activations import FUNCTIONS, Activation
from padenet.torch.conversion.reading import operations as known
from padenet.torch.conversion.reading.values import Frame, Record, Slot, Value

HOLDERS = (nn.ModuleList, nn.Sequential, nn.ModuleDict)


class Chain(tuple[Value, ...]):
    """A slice of a list of modules; of a Sequential it can be called."""

    __slots__ = ()


class Objects:
    """Makes values, and knows what is held by what.

    ``whole`` are the modules that are an activation, ``formulas`` those that only compute.
    """

    frame: Frame
    home: nn.Module | None = None
    call: Callable[[Value, list[Value], dict[str, Value]], Value]
    tell: Callable[[str], None]
    hints: dict[Value, tuple[Any, str]]

    def __init__(self) -> None:
        self.whole: dict[nn.Module, Activation] = {}
        self.formulas: dict[nn.Module, Callable[..., Any]] = {}
        self.records: list[Record] = []
        self.made: list[Value] = []
        self.writes: list[tuple[Value, Value]] = []  # what was written, into what
        self.odd: dict[nn.Module, str] = {}  # activations that a unit cannot stand for, and why
        self.stored: set[str] = set()  # names of attributes that a forward sets
        self.slots: dict[nn.Module, Slot] = {}  # where each is held first
        self.fetched: dict[Slot, bool] = {}  # by forwards; False: never where it is reached
        self.clock = self.impure = self.depth = 0
        self.dead = False
        self.stack: list[Any] = []
        self.frame = None  # type: ignore[assignment]

    def new(self, op: str, args: Iterable[Value] = (), data: Any = None) -> Value:
        self.clock += 1
        value = Value(op, args, data, self.clock, self.dead)
        value.home = self.home
        if op in ("apply", "call"):
            self.made.append(value)
        return value

    def const(self, found: Any) -> Value:
        return self.new("const", data=found)

    def unknown(self, name: str, args: Iterable[Value] = ()) -> Value:
        value = self.new("other", args, name)
        value.known = False
        self.impure += 1
        return value

    def pack(self, parts: list[Value]) -> Value:
        return self.new("pack", parts, "list")

    def apply(
        self,
        name: str,
        function: Callable[..., Any],
        args: list[Value],
        given: Mapping[str, Value] | None = None,
    ) -> Value:
        """A function of each number by itself, at once where everything is known."""
        given = given or {}
        every = [*args, *given.values()]
        if every and all(a.op == "const" for a in every):
            try:
                values = {k: v.data for k, v in given.items()}
                folded = self.const(function(*(a.data for a in args), **values))
                folded.live = any(a.live for a in every)
                return folded
            except Exception:  # whatever the forward itself would meet
                return self.unknown(name, every)
        if all(a.op in ("meta", "const") for a in every):
            return self.new("meta")
        value = self.new("apply", every, known.SAME.get(name, name))
        value.keys, value.function = tuple(given), function
        return value

    def rebind(self, old: Value, new: Value) -> None:
        """What was written in place has a new value under each of its names."""
        if old.op in ("const", "meta") or self.frame is None:
            return
        env = self.frame.env
        for name in [n for n, v in env.items() if v is old]:
            env[name] = new

    def attribute(self, base: Value, name: str) -> Value:
        holder = base.data
        if isinstance(holder, nn.Module):
            return self.module_attribute(holder, name)
        if isinstance(holder, (ModuleType, super, type)) or (
            isinstance(holder, MethodType) and name == "__func__"
        ):
            found = getattr(holder, name, self)
            return self.unknown(name) if found is self else self.object_of(found)
        found = inspect.getattr_static(holder, name, self)
        if isinstance(found, known.PLAIN):
            value = self.const(found)
            value.live = True
            return value
        if isinstance(
            vars(holder).get(name) if hasattr(holder, "__dict__") else None, torch.Tensor
        ):
            return self.new("tensor", data=found)
        if isinstance(holder, (list, tuple, dict)) and name in ("items", "values", "keys"):
            return self.const(getattr(holder, name))
        value = self.new("meta", data=name)
        self.hints[value] = (found, f"{name} belongs to an object that is no module")
        return value

    def object_of(self, found: Any) -> Value:
        return (
            self.new("tensor", data=found) if isinstance(found, torch.Tensor) else self.const(found)
        )

    def module_attribute(self, holder: nn.Module, name: str) -> Value:
        own = vars(holder)
        own_act = self.whole.get(holder)
        lost = name not in known.OF_MODULES or name == "__class__"
        if own_act and (lost or (name == "forward" and own_act.inplace)):
            self.odd[holder] = f"a forward reads its {name}"
        for table in ("_parameters", "_buffers"):
            if name in own[table]:
                found = own[table][name]
                return self.const(None) if found is None else self.new("tensor", data=found)
        if name in own["_modules"]:
            if name in self.stored and own["_modules"][name] in self.whole:
                self.odd[own["_modules"][name]] = "a forward sets it"
            return self.child(holder, name)
        if name == "training":
            return self.new("meta")
        if name in self.stored:
            held = own.get(name)
            plain = isinstance(held, (bool, int, float, str))
            value = self.new("meta") if plain else self.unknown(name)
            if isinstance(held, Hashable) and held in FUNCTIONS:
                self.tell(f"{held.__name__}: a forward sets {name}")
            return value
        if name in own:
            return self.object_of(own[name])
        found = inspect.getattr_static(type(holder), name, self)
        if found is self:
            return self.unknown(name)
        if isinstance(found, property):
            return self.call(self.const(MethodType(found.fget, holder)), [], {})  # type: ignore
        if known.is_python(found) or inspect.isfunction(found):
            return self.const(MethodType(found, holder))
        if isinstance(found, (staticmethod, classmethod)):
            return self.const(found.__get__(holder, type(holder)))
        if isinstance(found, known.PLAIN):
            return self.const(found)
        return self.object_of(getattr(holder, name, None))

    def child(self, holder: nn.Module, name: str) -> Value:
        value = self.const(holder._modules[name])
        value.slot = (holder, name)
        self.fetched[value.slot] = self.fetched.get(value.slot, False) or not self.dead
        return value

    def members(self, base: Value) -> list[Value]:
        holder = base.data
        if isinstance(holder, HOLDERS):
            return [self.child(holder, n) for n in holder._modules]
        if isinstance(holder, dict):
            return [self.object_of(v) for v in holder.values()]
        if isinstance(holder, Chain):
            return list(holder)
        if isinstance(holder, (list, tuple)):
            return [self.object_of(v) for v in holder]
        return []

    def one_of(self, values: list[Value]) -> Value:
        return values[0] if len(values) == 1 else self.new("join", values)

    def each(self, value: Value) -> Value:
        """What iteration over it yields."""
        if value.op == "const":
            found = self.members(value)
            return self.one_of(found) if found else self.new("meta")
        if value.op == "each":
            return value.args[0]
        if value.op == "pack":
            return self.one_of(list(value.args)) if value.args else self.new("join", [value])
        return self.new("meta") if value.op == "meta" else self.new("move", [value], "unbind")

    def unpack(self, value: Value, count: int) -> list[Value] | None:
        if value.op == "pack" and value.data == "bag" and value.args:
            return [self.one_of(list(value.args))] * count
        if value.op == "pack" and len(value.args) == count:
            return list(value.args)
        if value.op == "each":
            element = value.args[0]
            if element.op == "const":
                return [element] * count
            return [self.new("move", [element], "getitem") for _ in range(count)]
        if value.op == "const" and len(found := self.members(value)) == count:
            return found
        if value.op == "meta":
            return [self.new("meta") for _ in range(count)]
        if value.op == "join" and value.args:
            parts = [self.unpack(v, count) for v in value.args]
            if all(parts):
                return [self.new("join", each) for each in zip(*parts, strict=True)]  # type: ignore
        return None

    def item(self, base: Value, index: Value) -> Value:
        if base.op == "const":
            found = self.members(base)
            if not found:
                return self.new("meta")
            if index.is_const(slice, int):
                try:
                    chosen = found[index.data]
                except IndexError:
                    return self.unknown("item")
                return self.const(Chain(chosen)) if isinstance(chosen, list) else chosen
            if index.is_const(str) and isinstance(base.data, (nn.ModuleDict, dict)):
                names = list(base.data.keys())
                return found[names.index(index.data)] if index.data in names else self.unknown("")
            return self.one_of(found)
        if base.op in ("pack", "each"):
            if index.is_const(int) and base.data == "list" and index.data < len(base.args):
                found = base.args[index.data]  # a loop may set it anew, later on
                return (
                    self.new("join", [found]) if self.frame.loops and found.op != "const" else found
                )
            if index.op != "const" or base.data == "bag":
                return self.each(base)
        if base.op == "meta":
            return base
        named = index.is_const(int, str) and not isinstance(index.data, bool)
        return self.new("move", [base], f"[{index.data}]" if named else "getitem")
