"""What the code of forwards says about attributes, before it is followed."""

import dis
import inspect
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any, NamedTuple

STORES = ("STORE_ATTR", "DELETE_ATTR", "STORE_GLOBAL")
ASKS = {"getattr", "hasattr"}
SEARCHES = {"children", "named_children", "modules", "named_modules", "_modules"}


class Reached(NamedTuple):
    """``stores``: attributes that are assigned to, ``names``: all names, ``texts``: strings."""

    stores: set[str]
    names: set[str]
    texts: set[str]

    @property
    def searches(self) -> bool:
        """It goes through the children of a module: a new one would be run too."""
        return bool(self.names & SEARCHES)

    @property
    def asked(self) -> set[str]:
        """Names of attributes that it may look for by a string."""
        return self.texts if self.names & ASKS else set()


def reached_by(cls: type) -> Reached:
    """What the forward of a class and the methods that it names say."""
    found = Reached(set(), {"forward"}, set())
    if cls.__module__.startswith("torch."):
        return found
    names, seen = ["forward"], {"forward", "__init__"}
    while names:
        for function in _functions(cls, names.pop()):
            for code in codes(function.__code__):
                steps = dis.get_instructions(code)
                found.stores.update(str(i.argval) for i in steps if i.opname in STORES)
                found.names.update(code.co_names)
                found.texts.update(c for c in code.co_consts if isinstance(c, str))
                names += [n for n in code.co_names if n not in seen]
                seen |= set(code.co_names)
    return found


def _functions(cls: type, name: str) -> Iterator[FunctionType]:
    """Every method or property ``name`` of a class and of those that it inherits from."""
    for base in cls.__mro__:
        held: Any = vars(base).get(name)
        held = held.fget if isinstance(held, property) else getattr(held, "__func__", held)
        if isinstance(held, FunctionType) and not base.__module__.startswith("torch."):
            inner = inspect.unwrap(held)
            if isinstance(inner, FunctionType):
                yield inner


def codes(code: CodeType) -> Iterator[CodeType]:
    """``code`` and all that is inside of it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes(constant)
