"""Activations in code that is not followed, by the names in it."""

import functools
import inspect
import re
from collections.abc import Iterator
from types import FunctionType, MethodType
from typing import Any, TypeGuard

import torch
from torch import nn

from padenet.torch.conversion.activations import FUNCTIONS, HOOKS, NAMES, read_module
from padenet.torch.conversion.reading.operations import is_torch
from padenet.torch.conversion.reading.stored import codes

MOST = 200  # functions that are looked at


def mentioned_in(thing: Any) -> list[str]:
    """The names of the activations that a call of ``thing``, or of what it makes, may reach."""
    found: set[str] = set()
    seen: set[int] = set()
    stack = [thing]
    while stack and len(seen) < MOST:
        held = stack.pop()
        if id(held) in seen:
            continue
        seen.add(id(held))
        if is_known(held):
            found.add(held.__name__)
        elif isinstance(held, torch.jit.ScriptFunction):
            found |= NAMES & set(re.findall(r"aten::(\w+)", str(held.inlined_graph)))
        elif isinstance(held, functools.partial):
            stack += [held.func, *held.args, *held.keywords.values()]
        elif isinstance(held, (MethodType, staticmethod, classmethod)):
            stack.append(held.__func__)
        elif isinstance(held, FunctionType):
            if not (is_torch(held) or is_loss(held)):
                found |= {n for code in codes(held.__code__) for n in code.co_names} & NAMES
                stack += _named_by(held)
        elif inspect.ismethoddescriptor(held):
            found |= {held.__name__} & NAMES
        elif isinstance(held, nn.Module):
            found |= {type(held).__name__} if read_module(held) else set()
        elif isinstance(held, type):
            stack.append(held.forward if is_autograd(held) else vars(held).get("__call__"))
        else:
            stack.append(vars(type(held)).get("__call__"))
    return sorted(found)


def is_loss(held: FunctionType) -> bool:
    """Whether it compares with labels: what it computes is no activation of the model."""
    arguments = held.__code__.co_varnames[: held.__code__.co_argcount]
    return any(name in ("labels", "target", "targets") for name in arguments)


def hooks_of(module: nn.Module) -> list[Any]:
    tables = [getattr(module, name, None) for name in HOOKS]
    return [hook for table in tables if isinstance(table, dict) for hook in table.values()]


def is_known(held: Any) -> bool:
    try:
        return held in FUNCTIONS
    except TypeError:  # it has no hash
        return False


def is_autograd(held: Any) -> TypeGuard[type[torch.autograd.Function]]:
    return isinstance(held, type) and issubclass(held, torch.autograd.Function)


def _named_by(function: FunctionType) -> Iterator[Any]:
    """Functions among the globals that ``function`` names, what it closes over, its defaults."""
    names = {n for code in codes(function.__code__) for n in code.co_names}
    scope = [function.__globals__[n] for n in names if n in function.__globals__]
    for cell in function.__closure__ or ():
        try:
            scope.append(cell.cell_contents)
        except ValueError:  # an empty cell
            continue
    scope += [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    kinds = (FunctionType, MethodType, torch.jit.ScriptFunction, functools.partial)
    yield from (v for v in scope if isinstance(v, kinds) or is_known(v) or is_autograd(v))
