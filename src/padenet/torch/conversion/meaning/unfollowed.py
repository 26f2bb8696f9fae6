"""Calls of what is not followed: what they are given, and what the report says of them."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from torch import nn

from padenet.torch.conversion.meaning.mentions import is_known, mentioned_in
from padenet.torch.conversion.reading.objects import Objects
from padenet.torch.conversion.reading.values import Value

HOLD = ("join", "pack", "each")


class Unfollowed(Objects):
    """``hints`` are what values stand for as things are, and why their calls are not followed.

    ``given_away`` are the modules that such a call was given.
    """

    call_closure: Callable[[Value, list[Value], dict[str, Value]], Value]

    def __init__(self) -> None:
        super().__init__()
        self.hints: dict[Value, tuple[Any, str]] = {}
        self.given_away: set[nn.Module] = set()

    def tell(self, why: str) -> None:
        """The report says that an activation is left, and why."""
        self.made.append(self.new("other", data="left"))
        self.made[-1].activation = why

    def tell_mentioned(self, thing: Any, why: str) -> None:
        names = mentioned_in(thing)
        if names:
            self.tell(f"{', '.join(names)}: {why}")

    def call_unknown(
        self, name: str, args: list[Value], given: dict[str, Value], callee: Any = None
    ) -> Value:
        """A call of ``callee``, an object, if that is known."""
        every = [*args, *given.values()]
        made = self.unknown(name, every)
        self.writes += [(made, v) for v in every if v.op not in ("const", "meta", "closure")]
        for v in set(self.walk(every)):
            if v.op == "pack" and v.data != "object":  # it may be filled anew
                v.data, v.keys = "bag", ()
                v.add(made)
        self.tell_mentioned(callee, f"{name} cannot be followed")
        self.give_away(every, name)
        return made

    def call_value(self, callee: Value, args: list[Value], given: dict[str, Value]) -> Value:
        """A call of what is no known object."""
        made = self.call_unknown(str(callee.data), args, given)
        made.add(callee)
        for part in self.parts(callee):
            if part.is_const(nn.Module):
                self.given_away.add(part.data)
            elif part.op == "closure":
                self.call_closure(part, [self.anything()], {})
            elif part.is_const():
                self.tell_mentioned(part.data, "it is one of several functions")
            elif part in self.hints:
                self.tell_mentioned(*self.hints[part])
        return made

    def give_away(self, values: list[Value], name: str) -> None:
        """``values`` go into a function ``name``, which may call them."""
        for part in (p for v in values for p in self.parts(v)):
            if part.op == "closure":
                self.call_closure(part, [self.anything()], {})
            elif part.is_const(nn.Module):
                self.given_away.add(part.data)
            elif part.is_const() and (is_known(part.data) or callable(part.data)):
                self.tell_mentioned(part.data, f"it is given to {name}")

    def anything(self) -> Value:
        """Any number of unknown arguments."""
        return self.new("each", [self.unknown("arguments")])

    def parts(self, value: Value) -> Iterator[Value]:
        """``value``, or what it may be, or holds."""
        for v in self.walk([value]):
            if v in self.hints or v.op not in HOLD:
                yield v

    def walk(self, values: Iterable[Value]) -> Iterator[Value]:
        """``values``, what they may be and what they hold."""
        stack, seen = list(values), set()
        while stack:
            v = stack.pop()
            if v in seen:
                continue
            seen.add(v)
            yield v
            if v.op in HOLD:
                stack += v.args
            elif v.is_const(list, tuple, dict):
                stack += self.members(v)
