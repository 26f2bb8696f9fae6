"""What a call in a forward gives: an activation, a child's result, a step of torch's, or unknown."""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from types import MethodType, ModuleType
from typing import Any

import torch
import torch.utils.checkpoint
from torch import nn

from padenet.conversion import operations as known
from padenet.conversion.activations import FUNCTIONS, METHODS, Activation, Unknown, read_call
from padenet.conversion.source import Source, read
from padenet.conversion.values import Frame, Record, Slot, Value, has_data

DEPTH = 12
HOLDERS = (nn.ModuleList, nn.Sequential, nn.ModuleDict)
CHECKPOINTS = {torch.utils.checkpoint.checkpoint}
NEVER = {torch.jit.is_scripting, torch.jit.is_tracing, torch.compiler.is_compiling}


class Calls:
    """``whole`` are the modules that are an activation, ``formulas`` those that only compute."""

    frame: Frame
    home: nn.Module
    follow: Callable[[Frame], Value]

    def __init__(self) -> None:
        self.whole: dict[nn.Module, Activation] = {}
        self.formulas: dict[nn.Module, Callable[..., Any]] = {}
        self.records: list[Record] = []
        self.made: list[Value] = []
        self.slots: dict[nn.Module, Slot] = {}  # where each is held first
        self.clock = self.impure = self.depth = 0
        self.dead = False
        self.stack: list[Any] = []
        self.frame = None  # type: ignore[assignment]

    # -- making values

    def new(self, op: str, args: Iterable[Value] = (), data: Any = None) -> Value:
        self.clock += 1
        value = Value(op, args, data, self.clock, self.dead)
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

    # -- reading objects

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
        if isinstance(vars(holder).get(name) if hasattr(holder, "__dict__") else None, torch.Tensor):
            return self.new("tensor", data=found)
        if isinstance(holder, (list, tuple, dict)) and name in ("items", "values", "keys"):
            return self.const(getattr(holder, name))
        return self.new("meta", data=name)

    def object_of(self, found: Any) -> Value:
        return self.new("tensor", data=found) if isinstance(found, torch.Tensor) else self.const(found)

    def module_attribute(self, holder: nn.Module, name: str) -> Value:
        own = vars(holder)
        for table in ("_parameters", "_buffers"):
            if name in own[table]:
                found = own[table][name]
                return self.const(None) if found is None else self.new("tensor", data=found)
        if name in own["_modules"]:
            return self.child(holder, name)
        if name == "training":
            return self.new("meta")
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
        return value

    def members(self, base: Value) -> list[Value]:
        holder = base.data
        if isinstance(holder, HOLDERS):
            return [self.child(holder, n) for n in holder._modules]
        if isinstance(holder, dict):
            return [self.object_of(v) for v in holder.values()]
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
        if value.op == "pack" and len(value.args) == count:
            return list(value.args)
        if value.op == "each":
            return value.args * count
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
                return self.one_of(chosen) if isinstance(chosen, list) else chosen
            if index.is_const(str) and isinstance(base.data, (nn.ModuleDict, dict)):
                names = list(base.data.keys())
                return found[names.index(index.data)] if index.data in names else self.unknown("")
            return self.one_of(found)
        if base.op in ("pack", "each"):
            if index.is_const(int) and base.data == "list" and index.data < len(base.args):
                return base.args[index.data]
            if index.op != "const":
                return self.each(base)
        if base.op == "meta":
            return base
        named = index.is_const(int, str) and not isinstance(index.data, bool)
        return self.new("move", [base], f"[{index.data}]" if named else "getitem")

    # -- calls

    def call(self, callee: Value, args: list[Value], given: dict[str, Value]) -> Value:
        if callee.op == "closure":
            return self.call_closure(callee, args, given)
        if callee.op == "join" and callee.args and all(a.op == "const" for a in callee.args):
            return self.new("join", [self.call(c, args, given) for c in callee.args])
        if callee.op != "const":
            return self.call_unknown(str(callee.data), [callee, *args], given)
        f = callee.data
        if isinstance(f, functools.partial):
            more = {k: self.object_of(v) for k, v in f.keywords.items()}
            first = [self.object_of(v) for v in f.args]
            return self.call(self.object_of(f.func), [*first, *args], {**more, **given})
        if isinstance(f, nn.Module):
            return self.call_module(callee, args, given)
        if isinstance(f, MethodType) and isinstance(f.__self__, nn.Module):
            return self.call_method(f, args, given)
        try:
            hash(f)
        except TypeError:
            return self.call_unknown(str(f), args, given)
        if f in CHECKPOINTS and args:
            keep = {k: v for k, v in given.items() if k not in ("use_reentrant", "context_fn")}
            self.impure += 1
            return self.call(args[0], args[1:], keep)
        if f in NEVER:
            return self.const(False)
        if f in FUNCTIONS:
            return self.activation(f, f, args, given)
        every = [*args, *given.values()]
        if (f in known.FOLDED or known.is_math(f)) and all(a.is_const() for a in every):
            if f is getattr and len(args) == 2 and isinstance(args[1].data, str):
                return self.attribute(args[0], args[1].data)
            return self.apply(known.short(f), f, args, given)
        if f in known.LOOKS:
            return self.new("meta")
        if known.is_torch(f):
            return self.step(known.short(f), f, args, given)
        if f in (enumerate, zip, reversed, list, tuple, iter, sorted, next, range, dict):
            return self.iterate(f, args)
        if known.is_python(f):
            source = read(f)
            if isinstance(source, Source) and not hasattr(f, "__wrapped__"):
                why = f"{f.__qualname__}, a function outside the class"
                return self.inline(source, None, why, args, given)
            return self.call_unknown(f.__qualname__, args, given)
        if isinstance(f, type) and not issubclass(f, nn.Module):
            self.impure += 1
            value = self.new("pack", every, "object")
            value.keys = tuple(given)
            return value
        return self.call_unknown(known.short(f), args, given)

    def call_unknown(self, name: str, args: list[Value], given: dict[str, Value]) -> Value:
        every = [*args, *given.values()]
        for value in every:
            if value.op == "closure":
                self.call_closure(value, [], {})
        return self.unknown(name, every)

    def iterate(self, f: Any, args: list[Value]) -> Value:
        if f is range or not args:
            return self.new("meta") if f is range else self.pack([])
        if f is next:
            return self.each(args[0])
        if f in (list, tuple, sorted, dict) and args[0].op in ("pack", "each", "meta"):
            return args[0]
        parts = [self.each(a) for a in args]
        if f is enumerate:
            parts.insert(0, self.new("meta"))
        return self.new("each", [self.pack(parts) if f in (enumerate, zip) else parts[0]])

    def call_method(self, f: MethodType, args: list[Value], given: dict[str, Value]) -> Value:
        module, function = f.__self__, f.__func__
        if isinstance(module, HOLDERS) and function.__name__ in ("items", "values"):
            found = self.one_of(self.members(self.const(module))) if len(module) else None
            if found is None:
                return self.new("meta")
            both = self.pack([self.new("meta"), found])
            return self.new("each", [both if function.__name__ == "items" else found])
        inner = inspect.unwrap(function)
        source = read(inner)
        if known.is_torch(function) or isinstance(source, str) or len(self.stack) > DEPTH:
            return self.call_unknown(known.short(function), args, given)
        name, why = source.private(function.__name__), ""
        if source.decorated or inner is not function:
            why = f"{function.__name__} is decorated"
            self.impure += 1
        elif inspect.getattr_static(type(module), name, None) is not function:
            why = f"{function.__qualname__}, a method of a parent class that is called through super()"
        first = self.const(module)
        return self.inline(source, module, why, [first, *args], given)

    def call_closure(self, f: Value, args: list[Value], given: dict[str, Value]) -> Value:
        tree, outer = f.data
        source = Source(tree, outer.source.name, outer.source.function)
        if tree in self.stack or len(self.stack) > DEPTH:
            return self.call_unknown("closure", args, given)
        env = self.bind_arguments(source, None, args, given)
        frame = Frame(source, outer.module, outer.method, env, outer.why, outer.loops, outer=outer)
        self.stack.append(tree)
        value = self.follow(frame)
        self.stack.pop()
        return value

    def inline(
        self,
        source: Source,
        module: nn.Module | None,
        why: str,
        args: list[Value],
        given: dict[str, Value],
    ) -> Value:
        if len(self.stack) > DEPTH or (key := (source.tree, module)) in self.stack:
            return self.call_unknown(source.function.__qualname__, args, given)
        env = self.bind_arguments(source, source.function, args, given)
        name = source.private(source.function.__name__)
        before = self.impure - why.endswith("decorated")
        self.stack.append(key)
        value = self.follow(Frame(source, module, name, env, why))
        self.stack.pop()
        return value if self.impure == before else self.new("join", [value])

    def bind_arguments(
        self, source: Source, function: Any, args: list[Value], given: dict[str, Value]
    ) -> dict[str, Value]:
        """Names of a function by what it is called with."""
        a = source.tree.args
        names = [p.arg for p in (*a.posonlyargs, *a.args)]
        env: dict[str, Value] = {}
        rest = self.new("meta")
        if any(v.op == "each" for v in args) or "**" in given:
            rest = self.new("other", [*args, *given.values()], "arguments")
        defaults = dict(getattr(function, "__kwdefaults__", None) or {})
        values = getattr(function, "__defaults__", None) or ()
        defaults |= dict(zip(names[len(names) - len(values) :], values, strict=True))
        spread = any(v.op == "each" for v in args)
        for i, name in enumerate([*names, *(p.arg for p in a.kwonlyargs)]):
            if spread and i >= next(k for k, v in enumerate(args) if v.op == "each"):
                env[name] = rest
            elif i < min(len(args), len(names)):
                env[name] = args[i]
            elif name in given:
                env[name] = given[name]
            elif name in defaults and rest.op == "meta":
                env[name] = self.object_of(defaults[name])
            else:
                env[name] = rest
        if a.vararg:
            env[a.vararg.arg] = self.pack(args[len(names) :])
        if a.kwarg:
            more = [v for k, v in given.items() if k not in env]
            env[a.kwarg.arg] = self.new("pack", more, "dict")
        return env

    def call_module(self, callee: Value, args: list[Value], given: dict[str, Value]) -> Value:
        child = callee.data
        every = [*args, *given.values()]
        if child in self.whole and len(every) == 1:
            value = self.apply(type(child).__name__, self.whole[child], every)
            value.activation, value.slot = self.whole[child], callee.slot or self.slots.get(child)
            value.named = bool(given)
            self.write(value)
            return value
        if isinstance(child, known.MOVING_MODULES) and every:
            return self.new("move", every[:1], type(child).__name__)
        value = self.new("call", every, child)
        value.keys, value.slot = tuple(given), callee.slot
        if child in self.formulas and len(every) == 1:
            value.function = self.formulas[child]
        else:
            self.impure += 1
        return value

    def activation(
        self, function: Any, f: Any, args: list[Value], given: dict[str, Value]
    ) -> Value:
        """A call of a function or a method that the tables know."""

        def plain(v: Value) -> Any:
            return v.data if v.is_const(*known.PLAIN) else Unknown(has_data(v))

        found = read_call(function, [plain(a) for a in args], {k: plain(v) for k, v in given.items()})
        value = self.apply(known.short(f), f, args, given)
        if value.op == "apply":
            value.activation = found
            self.write(value)
        return value

    def write(self, value: Value) -> None:
        """An activation in place: its result has the names of its input."""
        if isinstance(value.activation, Activation) and value.activation.inplace:
            value.inplace = True
            self.rebind(value.args[0], value)

    def method(
        self, base: Value, name: str, args: list[Value], given: dict[str, Value]
    ) -> Value:
        """A call of a method of what is no known object: of a tensor, mostly."""
        if name in known.CHANGERS and base.op in ("pack", "each", "other", "input"):
            for value in (*args, *given.values()):
                self.put_into(base, value)
            return self.const(None)
        if base.op == "meta":
            return self.new("meta")
        if name in METHODS and not args and not given:
            return self.activation(name, getattr(torch.Tensor, name), [base], {})
        if name in ("items", "values", "keys", "pop", "get") and base.op in ("pack", "each"):
            return base if name != "items" else self.new("each", [self.each(base)])
        function = getattr(torch.Tensor, name, None)
        if function is None:
            return self.call_unknown(name, [base, *args], given)
        return self.step(name, function, [base, *args], given)

    def put_into(self, base: Value, value: Value) -> None:
        if base.op != "pack":
            self.impure += 1
            self.new("store", [value], "a list")
        base.add(value)

    def step(self, name: str, f: Any, args: list[Value], given: dict[str, Value]) -> Value:
        """An operation of torch's, function or method, by name."""
        written, plain = name.endswith("_"), name.rstrip("_")
        every = [*args, *given.values()]
        if plain in ("max", "min") and len(args) == 2 and args[1].op not in ("const", "meta"):
            plain, f = ("maximum", torch.maximum) if plain == "max" else ("minimum", torch.minimum)
        if plain in known.META:
            return self.new("meta")
        if plain in known.ELEMENTWISE:
            value = self.apply(plain, f, args, given)
            value.inplace = (written or "out" in given) and value.op == "apply"
        elif plain in known.CASTS and every:
            value = self.apply("to", lambda x, *_, **__: x, args, given)
        elif plain in known.PRODUCTS:
            value = self.new("product", every, plain)
        elif (plain in known.MOVES or name in known.MOVES) and every:
            value = self.new("move", every, plain)
            self.impure += "dropout" in plain
        else:
            value = self.new("other", every, name)
            self.impure += 1
            for arg in every:
                if arg.op == "closure":
                    self.call_closure(arg, [], {})
        if written and args:
            self.rebind(args[0], value)
        return value
