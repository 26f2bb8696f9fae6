"""Methods of a module with other calls in them.

The text of a method stays what it is, except for the calls that become those of a unit, so nothing
that it reads, draws or writes is fixed. The changed methods go into a subclass made for the
module, which keeps its class, attributes, hooks and keys.
"""

import ast
import copy
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

from torch import nn

from padenet.torch.conversion.reading.source import Source, decorate, make, text_of


@dataclass
class Change:
    """What becomes of an expression: ``me.unit(argument)``, or itself where ``unit`` is "".

    ``names`` are bound to the result as well: those of the tensor that it was written into.
    """

    me: str
    unit: str
    argument: ast.expr | str
    names: tuple[str, ...] = ()


class _Rewrite(ast.NodeTransformer):
    def __init__(self, changes: dict[int, Change], copies: dict[int, Any]):
        self.changes, self.copies = changes, copies

    def visit(self, node: Any) -> Any:
        change = self.changes.get(id(node))
        if change is None:
            return self.generic_visit(node)
        if change.unit:
            new: Any = self.call(change)
        else:
            new = self.generic_visit(node)
            if isinstance(new, ast.Call):  # a unit's argument has a name of its own
                new.args, new.keywords = [*new.args, *(k.value for k in new.keywords)], []
        if isinstance(node, ast.AugAssign):
            targets: list[Any] = [node.target, *(ast.Name(n, ast.Store()) for n in change.names)]
            return ast.copy_location(ast.Assign(targets, new), node)
        for name in change.names:
            new = ast.NamedExpr(ast.Name(name, ast.Store()), new)
        return ast.copy_location(new, node)

    def call(self, change: Change) -> ast.Call:
        x: Any = change.argument
        if isinstance(x, str):
            x = ast.Name(x, ast.Load())
        else:
            x = self.visit(self.copies[id(x)])
        if isinstance(getattr(x, "ctx", None), ast.Store):
            x = ast.Name(x.id, ast.Load())
        function = ast.Attribute(ast.Name(change.me, ast.Load()), change.unit, ast.Load())
        return ast.Call(function, [x], [])


def rewrite(source: Source, changes: Mapping[Any, Change]) -> str:
    """The text of the function with ``changes``, by the nodes of its tree."""
    copies: dict[int, Any] = {}
    tree = copy.deepcopy(source.tree, copies)
    by_id = {id(copies[id(node)]): change for node, change in changes.items()}
    tree = _Rewrite(by_id, copies).visit(tree)
    return text_of(source, ast.fix_missing_locations(tree))


_made: WeakValueDictionary[Any, type] = WeakValueDictionary()


def set_methods(module: nn.Module, texts: Mapping[str, str]) -> None:
    """Give ``module`` methods by their texts, over those of its class."""
    module.__class__ = _make_class(type(module), tuple(sorted(texts.items())))


def _make_class(base: type, texts: tuple[tuple[str, str], ...]) -> type:
    if (base, texts) not in _made:
        methods: dict[str, Any] = {}
        for name, text in texts:
            label = f"{name} of {base.__qualname__}"
            outer = inspect.getattr_static(base, name)
            inner = inspect.unwrap(outer)
            methods[name] = decorate(outer, inner, make(text, inner, label))
        stored = {"__module__": base.__module__, "__qualname__": base.__qualname__}
        made = {"__reduce_ex__": _reduce, "_made_of": texts, "__doc__": base.__doc__}
        _made[base, texts] = type(base.__name__, (base,), {**stored, **made, **methods})
    return _made[base, texts]


def _reduce(self: Any, protocol: Any) -> tuple[Any, ...]:
    state = self.__getstate__() if hasattr(self, "__getstate__") else vars(self)
    return _rebuild, (type(self).__mro__[1], self._made_of), state


def _rebuild(base: type[nn.Module], texts: tuple[tuple[str, str], ...]) -> nn.Module:
    cls: Any = _make_class(base, texts)
    return cls.__new__(cls)
