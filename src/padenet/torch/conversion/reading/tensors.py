"""What an operation of torch's gives: an activation, a step of a formula, a move, or unknown."""

from typing import Any

import torch

from padenet.torch.conversion.activations import METHODS, Activation, Unknown, read_call
from padenet.torch.conversion.meaning.unfollowed import Unfollowed
from padenet.torch.conversion.reading import operations as known
from padenet.torch.conversion.reading.values import Value, has_data


class Tensors(Unfollowed):
    """Operations on tensors, as functions and methods, and what is written in place."""

    def activation(
        self, function: Any, f: Any, args: list[Value], given: dict[str, Value]
    ) -> Value:
        """A call of a function or a method that the tables know."""

        def plain(v: Value) -> Any:
            return v.data if v.is_const(*known.PLAIN) else Unknown(has_data(v))

        starred = any(a.op == "each" for a in args)
        found = read_call(
            function, [plain(a) for a in args], {k: plain(v) for k, v in given.items()}
        )
        if starred:
            found = f"{known.short(f)}: it is called with *"
        if isinstance(found, str) and (
            starred or {"out", "inplace"} & given.keys() or f.__name__[-1] == "_"
        ):
            value = self.write_out(known.short(f), [*args, *given.values()], given.get("out"))
            value.activation = found
            self.made.append(value)
            return value
        if "input" in given and not args:  # what it acts on comes first
            given = {"input": given["input"], **given}
        value = self.apply(known.short(f), f, args, given)
        if value.op == "apply":
            value.activation = found
            self.write(value)
        return value

    def write(self, value: Value) -> None:
        """An activation in place: its result has the names of its input."""
        if isinstance(value.activation, Activation) and value.activation.inplace:
            value.inplace = True
            self.writes.append((value, value.args[0]))
            self.rebind(value.args[0], value)

    def method(self, base: Value, name: str, args: list[Value], given: dict[str, Value]) -> Value:
        """A call of a method of what is no known object: of a tensor, mostly."""
        if name in known.CHANGERS and base.op in ("pack", "each", "other", "input"):
            for value in (*args, *given.values()):
                self.put_into(base, value)
            return self.each(base) if name == "setdefault" else self.const(None)
        if base.op == "meta":
            return self.new("meta")
        if name in METHODS and not args and not given:
            return self.activation(name, getattr(torch.Tensor, name), [base], {})
        if name in known.SHUFFLERS and base.op == "pack":
            base.data, base.keys = "bag", ()
        if name in ("pop", "popleft", "get") and base.op in ("pack", "each"):
            return self.new("join", [self.each(base), *args[1:]])  # another one each time
        if name in ("items", "values", "keys") and base.op in ("pack", "each"):
            return base if name != "items" else self.new("each", [self.each(base)])
        function = getattr(torch.Tensor, name, None)
        if base in self.hints:  # made by a class that is known
            return self.call_unknown(
                name, [base, *args], given, getattr(self.hints[base][0], name, None)
            )
        if function is None:
            return self.call_unknown(name, [base, *args], given)
        return self.step(name, function, [base, *args], given)

    def write_out(self, name: str, every: list[Value], out: Value | None = None) -> Value:
        """A result that is, or may be, written into ``out`` or the first argument."""
        value = self.unknown(name, every)
        out = out or every[0]
        self.writes.append((value, out))
        self.rebind(out, value)
        return value

    def put_into(self, base: Value, value: Value) -> None:
        if base.op == "pack":
            base.data, base.keys = "bag", ()
        else:
            self.impure += 1
            self.new("store", [value], "a list")
        base.add(value)

    def step(self, name: str, f: Any, args: list[Value], given: dict[str, Value]) -> Value:
        """An operation of torch's, function or method, by name."""
        flag = given.get("inplace", self.const(False))
        written, plain = name.endswith("_") or not flag.is_const() or flag.data, name.rstrip("_")
        every = [*args, *given.values()]
        if plain in ("max", "min") and len(args) == 2 and args[1].op not in ("const", "meta"):
            plain, f = ("maximum", torch.maximum) if plain == "max" else ("minimum", torch.minimum)
        if plain in known.META:
            return self.new("meta")
        if "out" in given:
            return self.write_out(name, every, given["out"])
        if plain in known.ELEMENTWISE:
            value = self.apply(plain, f, args, given)
            value.inplace = written and value.op == "apply"
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
            self.give_away(every, name)
        if written and args:
            self.writes.append((value, args[0]))
            self.rebind(args[0], value)
        return value
