"""Calls in place, whose result a unit would not write where others look for it."""

import re
from typing import Any

from torch import fx

from padenet.conversion.activations import input_of

VIEWS = re.compile(
    "getitem|view|view_as|reshape|flatten|unflatten|transpose|permute|movedim|t|chunk|split|unbind"
    "|narrow|select|squeeze|unsqueeze|expand|detach|diagonal|swapaxes|augment|[a-z].*_"
)
"""Operations, by name, whose result may share memory with their input."""


def is_lost(node: fx.Node, written: set[fx.Node]) -> bool:
    """A call in place whose result is read later through another tensor on the same memory.

    ``written`` are all the calls in place.
    """
    if node not in written:
        return False
    nodes = list(node.graph.nodes)
    later = set(nodes[nodes.index(node) + 1 :])
    base: Any = input_of(node)
    if not node.users and not later & set(base.users):
        return True
    while base in written or VIEWS.fullmatch(getattr(base.target, "__name__", str(base.target))):
        base = next(iter(base.all_input_nodes), None)
        if base is None:
            return False
        if later & set(base.users):
            return True
    return False
