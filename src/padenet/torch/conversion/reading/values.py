"""Values that a forward computes, as far as they can be known without running it."""

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from padenet.torch.conversion.activations import Activation
from padenet.torch.conversion.reading.source import Source

Slot = tuple[nn.Module, str]
"""Where a module is held: ``holder._modules[name]``."""


class Value:
    """The result of one step, and the steps that take it: what an expression stands for.

    op       ``data``
    const    the object itself
    closure  a function made in the forward: its tree and the frame in which it was made
    input    an argument of a forward, by name
    tensor   a parameter or buffer
    apply    the name of a function of each number by itself; ``function`` computes it
    move     its name: the same numbers in another place
    product  its name: products of the numbers of several tensors
    call     the child module
    join     one or the other
    pack     a list, tuple, dict or object that holds others, or a bag, which has lost their order
             and names;  each: what such a thing yields
    store    where it is kept beyond the forward;  return: the end of a function
    meta     a shape, a dtype: no numbers of a tensor
    other    what it was called; ``known`` if it is an operation of torch's
    """

    __slots__ = (
        "activation",
        "args",
        "data",
        "dead",
        "function",
        "home",
        "hooked",
        "inplace",
        "keys",
        "known",
        "live",
        "named",
        "op",
        "slot",
        "time",
        "users",
    )

    def __init__(self, op: str, args: Iterable["Value"], data: Any, time: int, dead: bool):
        self.op, self.args, self.data, self.time, self.dead = op, list(args), data, time, dead
        self.users: list[Value] = []
        self.keys: tuple[str, ...] = ()  # of the last arguments
        self.function: Callable[..., Any] | None = None
        self.activation: Activation | str | None = None
        self.inplace = self.named = False  # named: called with a keyword
        self.hooked = False  # hooks may change what it gives
        self.live = False  # a constant that belongs to a configuration, which may change
        self.known = True
        self.slot: Slot | None = None
        self.home: nn.Module | None = None  # whose forward was followed
        for arg in self.args:
            arg.users.append(self)

    def add(self, arg: "Value") -> None:
        self.args.append(arg)
        arg.users.append(self)

    def __repr__(self) -> str:
        return f"<{self.op} {getattr(self.data, '__name__', self.data)!r:.40}>"

    def is_const(self, *kinds: type) -> bool:
        return self.op == "const" and (not kinds or isinstance(self.data, kinds))

    def uses(self) -> list["Value"]:
        return [u for u in self.users if not u.dead]


def has_data(value: Value) -> bool:
    """It depends on what the model is given, not on parameters alone."""
    seen: set[Value] = set()
    stack = [value]
    while stack:
        v = stack.pop()
        if v in seen or v.op in ("const", "tensor", "meta", "closure"):
            continue
        if v.op == "input":
            return True
        seen.add(v)
        stack += v.args
    return False


@dataclass(eq=False)
class Frame:
    """One run through a function. ``module`` is that whose method it is, if one's."""

    source: Source
    module: nn.Module | None
    method: str
    env: dict[str, Value]
    why: str = ""  # its calls cannot be rewritten
    loops: int = 0
    returns: list[Value] = field(default_factory=list)
    values: dict[ast.AST, Value] = field(default_factory=dict)
    reads: list[tuple[str, int]] = field(default_factory=list)
    outer: "Frame | None" = None

    @property
    def owner(self) -> "Frame":
        return self if self.outer is None else self.outer.owner


@dataclass(eq=False)
class Record:
    """``node`` of a function had ``value``, when the names were those of ``env``."""

    value: Value
    frame: Frame
    node: Any
    env: dict[str, Value]
    target: str | None = None  # the name that the statement binds to it
    in_loop: bool = False
