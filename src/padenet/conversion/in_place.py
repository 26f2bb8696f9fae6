"""Calls in place, whose result a unit would not write where others look for it."""

from padenet.conversion.operations import ALIASES
from padenet.conversion.values import Record, Value


def is_lost(value: Value) -> bool:
    """What this call in place wrote is read later through another tensor on the same memory."""
    family: set[Value] = set()
    stack = [value.args[0]]
    while stack:
        v = stack.pop()
        if v in family:
            continue
        family.add(v)
        if v.op == "tensor":
            return True
        if is_alias(v):
            stack += v.args
        stack += [u for u in v.uses() if u is not value and u.time < value.time and is_alias(u)]
    return any(
        u.op == "store" or (u.time > value.time and u.op != "join")
        for v in family
        for u in v.uses()
        if u is not value
    )


def is_alias(v: Value) -> bool:
    """It may share memory with its arguments."""
    return (
        v.op in ("join", "pack", "each", "store")
        or (v.op in ("move", "apply") and (v.data in ALIASES or v.data[:1] in "[."))
        or v.inplace
    )


def names_to_bind(record: Record) -> list[str]:
    """Names of the tensor that was written into, which the text goes on to read."""
    value, frame = record.value, record.frame
    if not value.inplace:
        return []
    names = [n for n, v in record.env.items() if v is value and n != record.target]
    later = {n for n, time in frame.owner.reads if record.in_loop or time > value.time}
    return [n for n in names if n in later]
