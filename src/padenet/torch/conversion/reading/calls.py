"""What a call in a forward gives: an activation, a child's result, torch's, or unknown."""

import functools
import inspect
from collections.abc import Callable
from types import MethodType
from typing import Any

import torch
import torch.utils.checkpoint
from torch import nn

from padenet.torch.conversion.activations import (
    FUNCTIONS,
    METHODS,
    MODULES,
    has_hooks,
    has_plain_call,
    read_module,
)
from padenet.torch.conversion.meaning.mentions import is_autograd
from padenet.torch.conversion.reading import operations as known
from padenet.torch.conversion.reading.objects import HOLDERS, Chain
from padenet.torch.conversion.reading.source import Source, can_decorate, read
from padenet.torch.conversion.reading.tensors import Tensors
from padenet.torch.conversion.reading.values import Frame, Value

DEPTH = 12
CHECKPOINTS = {torch.utils.checkpoint.checkpoint}
NEVER = {torch.jit.is_scripting, torch.jit.is_tracing, torch.compiler.is_compiling}


def defaults_of(function: Any) -> dict[str, Any]:
    """What its arguments are where they are not given."""
    code, values = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount][code.co_argcount - len(values) :]
    return {**dict(zip(names, values, strict=True)), **(function.__kwdefaults__ or {})}


class Calls(Tensors):
    """Calls of what the forward reaches."""

    follow: Callable[[Frame], Value]

    def call(self, callee: Value, args: list[Value], given: dict[str, Value]) -> Value:
        if callee.op == "closure":
            return self.call_closure(callee, args, given)
        if callee.op == "join" and callee.args and all(a.op == "const" for a in callee.args):
            return self.new("join", [self.call(c, args, given) for c in callee.args])
        if callee.op != "const":
            return self.call_value(callee, args, given)
        f = callee.data
        if isinstance(f, Chain) and len(args) == 1:
            value = args[0]
            for part in f:
                value = self.call(part, [value], {})
            return value
        if isinstance(f, functools.partial):
            more = {k: self.object_of(v) for k, v in f.keywords.items()}
            first = [self.object_of(v) for v in f.args]
            return self.call(self.object_of(f.func), [*first, *args], {**more, **given})
        if isinstance(f, nn.Module):
            return self.call_module(callee, args, given)
        if isinstance(f, MethodType) and isinstance(f.__self__, nn.Module):
            return self.call_method(f, args, given)
        if isinstance(f, MethodType) and is_autograd(f.__self__):
            name = f"{f.__self__.__name__}.{f.__name__}"
            return self.call_unknown(name, args, given, f.__self__)
        if isinstance(f, MethodType) and isinstance(f.__self__, type):
            return self.call(self.const(f.__func__), [self.const(f.__self__), *args], given)
        try:
            hash(f)
        except TypeError:
            return self.call_unknown(type(f).__name__, args, given, f)
        if f in CHECKPOINTS and args:
            keep = {k: v for k, v in given.items() if k not in ("use_reentrant", "context_fn")}
            self.impure += 1
            return self.call(args[0], args[1:], keep)
        if isinstance(f, type) and f in MODULES:
            self.tell(f"{f.__name__}: it is made in the forward")
        if f in NEVER:
            return self.const(False)
        if f in FUNCTIONS:
            return self.activation(f, f, args, given)
        every = [*args, *given.values()]
        if f in known.LOOKS or f is getattr:
            self.look(f, args)
        if (f in known.FOLDED or known.is_math(f)) and all(a.is_const() for a in every):
            if f is getattr and len(args) == 2 and isinstance(args[1].data, str):
                return self.attribute(args[0], args[1].data)
            return self.apply(known.short(f), f, args, given)
        if f in known.LOOKS:
            return self.new("meta")
        if f is getattr and len(args) > 1:
            return self.look_up(args)
        name = known.short(f)
        if name in METHODS and f is getattr(torch.Tensor, name) and args:
            return self.activation(name, f, args, given)
        if name == "forward":  # a class's, called with a module
            self.ask(args, "class")
        if f in (eval, exec):
            return self.call_unknown(name, [*args, *self.frame.env.values()], given)
        if isinstance(f, torch.jit.ScriptFunction):
            return self.call_unknown(f"{f.name}, a scripted function,", args, given, f)
        if known.is_torch(f):
            return self.step(known.short(f), f, args, given)
        if f in (enumerate, zip, reversed, list, tuple, iter, sorted, next, range, dict):
            return self.iterate(f, args, given)
        if known.is_python(f):
            source = read(f)
            if isinstance(source, Source) and not hasattr(f, "__wrapped__"):
                why = f"{f.__qualname__}, a function outside the class"
                return self.inline(source, None, why, args, given)
            return self.call_unknown(f.__qualname__, args, given, f)
        if isinstance(f, type) and not issubclass(f, nn.Module) and f not in (map, filter):
            self.impure += 1
            value = self.new("pack", every, "object")
            value.keys = tuple(given)
            self.hints[value] = (f, f"{name} is made in the forward")
            self.give_away(every, name)
            return value
        return self.call_unknown(name or type(f).__name__, args, given, f)

    def look_up(self, args: list[Value]) -> Value:
        """``getattr`` of what is not known, or by a name that is not."""
        made = self.call_unknown("getattr", args, {})
        name = args[1].data if args[1].is_const() else self.hints.get(args[1], (None, ""))[0]
        holder = args[0].data if args[0].is_const() else torch.Tensor
        if isinstance(name, str) and not isinstance(holder, nn.Module):
            found = inspect.getattr_static(holder, name, None)
            self.hints[made] = (found, "it is looked up by getattr as the model runs")
        return made

    def look(self, f: Any, args: list[Value]) -> None:
        """A question about an activation, to which a unit gives another answer."""
        if len(args) > 1 and f is isinstance:
            given = args[1].args if args[1].op == "pack" else args[1:]
            kinds: list[Any] = [k.data for k in given if k.is_const(type)]
            subjects = args[0].args if args[0].op == "join" else args[:1]
            if all(s.op == "const" for s in subjects):
                asked = [s.data for s in subjects if s.is_const(nn.Module)]
            else:
                asked = list(self.whole)
            told = tuple(k for k in kinds if k not in nn.Module.__mro__)
            asked = [m for m in asked if isinstance(m, told)]
        else:
            name = args[1].data if f in (getattr, hasattr) and len(args) > 1 else ""
            known_too = isinstance(name, str) and name != "" and name in known.OF_MODULES
            alike = f in (id, callable, len) or known_too
            asked = [args[0].data] if args and args[0].is_const(nn.Module) and not alike else []
        self.ask([self.const(m) for m in asked], known.QUESTIONS.get(f, "type"))

    def ask(self, values: list[Value], what: str) -> None:
        for value in values:
            if value.is_const(nn.Module) and value.data in self.whole:
                self.odd[value.data] = f"a forward asks for its {what}"

    def iterate(self, f: Any, args: list[Value], given: dict[str, Value]) -> Value:
        if f is dict and given:
            value = self.new("pack", [*map(self.each, args), *given.values()], "dict")
            value.keys = () if args else tuple(given)
            return value
        if f is range or not args:
            return self.new("meta") if f is range else self.pack([])
        if f is next:
            return self.new("join", [self.each(args[0])])  # another one each time
        if f is sorted and args[0].op == "pack":
            self.give_away(list(given.values()), "sorted")
            return self.new("pack", args[0].args, "bag")
        if f in (list, tuple, sorted, dict) and args[0].op in ("pack", "each", "meta"):
            return args[0]
        parts = [self.each(a) for a in args]
        if f is enumerate:
            parts.insert(0, self.new("meta"))
        return self.new("each", [self.pack(parts) if f in (enumerate, zip) else parts[0]])

    def call_method(self, f: MethodType, args: list[Value], given: dict[str, Value]) -> Value:
        module: Any = f.__self__
        function: Any = f.__func__
        if isinstance(module, HOLDERS) and function.__name__ in ("items", "values"):
            found = self.one_of(self.members(self.const(module))) if len(module) else None
            if found is None:
                return self.new("meta")
            both = self.pack([self.new("meta"), found])
            return self.new("each", [both if function.__name__ == "items" else found])
        inner = inspect.unwrap(function)
        source = read(inner)
        if known.is_torch(function) or isinstance(source, str) or len(self.stack) > DEPTH:
            return self.call_unknown(known.short(function), args, given, function)
        name, why = source.private(function.__name__), ""
        before, self.impure = self.impure, self.impure + (inner is not function)
        if not can_decorate(function, inner):
            why = f"{function.__name__} is decorated"
        elif inspect.getattr_static(type(module), name, None) is not function:
            inherited = any(function in vars(c).values() for c in type(module).__mro__)
            how = "which is called through super()" if inherited else "a function outside the class"
            why = f"{function.__qualname__}, {how}"
        first = self.const(module)
        return self.inline(source, module, why, [first, *args], given, before)

    def call_closure(self, f: Value, args: list[Value], given: dict[str, Value]) -> Value:
        tree, outer, defaults = f.data
        source = Source(tree, outer.source.name, outer.source.function)
        if tree in self.stack or len(self.stack) > DEPTH:
            return self.call_unknown("closure", args, given)
        env = self.bind_arguments(source, defaults, args, given)
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
        before: int | None = None,
    ) -> Value:
        f, key = source.function, (source.tree, module)
        if key in self.stack:
            return self.call_unknown(f.__qualname__, args, given)
        if len(self.stack) > DEPTH:
            return self.call_unknown(f.__qualname__, args, given, f)
        env = self.bind_arguments(source, defaults_of(f), args, given)
        name = source.private(f.__name__)
        before = self.impure if before is None else before
        self.stack.append(key)
        value = self.follow(Frame(source, module, name, env, why))
        self.stack.pop()
        return value if self.impure == before else self.new("join", [value])

    def bind_arguments(
        self, source: Source, defaults: dict[str, Any], args: list[Value], given: dict[str, Value]
    ) -> dict[str, Value]:
        """Names of a function by what it is called with. ``defaults`` may be values."""
        a = source.tree.args
        names = [p.arg for p in (*a.posonlyargs, *a.args)]
        env: dict[str, Value] = {}
        rest = self.new("meta")
        if any(v.op == "each" for v in args) or "**" in given:
            rest = self.unknown("arguments", [*args, *given.values()])
        spread = any(v.op == "each" for v in args)
        for i, name in enumerate([*names, *(p.arg for p in a.kwonlyargs)]):
            if spread and i >= next(k for k, v in enumerate(args) if v.op == "each"):
                env[name] = rest
            elif i < min(len(args), len(names)):
                env[name] = args[i]
            elif name in given:
                env[name] = given[name]
            elif name in defaults and rest.op == "meta":
                held = defaults[name]
                env[name] = held if isinstance(held, Value) else self.object_of(held)
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
            value.named, value.hooked = bool(given), has_hooks(child)
            self.write(value)
            return value
        if child in self.whole:
            self.odd[child] = "it is called with more than a tensor"
        plain = has_plain_call(child) and not has_hooks(child)
        if isinstance(child, known.MOVING_MODULES) and every and plain:
            value = self.new("move", every[:1], type(child).__name__)
            if getattr(child, "inplace", False):
                self.writes.append((value, every[0]))
                self.rebind(every[0], value)
            return value
        if not has_plain_call(child):
            return self.call_unknown(
                f"{type(child).__name__}.__call__", args, given, type(child).__call__
            )
        value = self.new("call", every, child)
        if getattr(child, "inplace", False) and every:
            self.writes.append((value, every[0]))
        value.keys, value.slot = tuple(given), callee.slot
        if child in self.formulas and len(every) == 1 and plain:
            value.function = self.formulas[child]
        else:
            self.impure += 1
        if read_module(child) is not None and child not in self.whole and plain:
            self.tell(f"{type(child).__name__}: it is no child of a module")
        return value
