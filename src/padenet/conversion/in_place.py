"""Calls in place, whose result a unit would not write where others look for it."""

from padenet.conversion.operations import ALIASES
from padenet.conversion.roles import Net
from padenet.conversion.values import Record, Value


def is_lost(value: Value, net: Net) -> bool:
    """What this call in place wrote is read later through another tensor on the same memory.

    Also in the forwards that gave the tensor to this one.
    """
    owners = {v: (module, name) for module, ins in net.inputs.items() for name, v in ins.items()}
    family: set[Value] = set()
    stack = [(value.args[0], value)]
    while stack:
        v, writer = stack.pop()
        if v in family:
            continue
        family.add(v)
        others = [u for u in v.uses() if u is not writer]
        if v.op == "tensor" or any(
            u.op == "store" or (u.time > writer.time and u.op != "join") for u in others
        ):
            return True
        if v in owners:
            stack += [(arg, call) for call, arg in net.given(*owners[v])]
        if is_alias(v):
            stack += [(arg, writer) for arg in v.args]
        stack += [(u, writer) for u in others if u.time < writer.time and is_alias(u)]
    return False


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
