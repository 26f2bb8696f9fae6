"""Calls in place, whose result a unit would not write where others look for it."""

from torch import nn

from padenet.torch.conversion.activations import Activation
from padenet.torch.conversion.meaning.formulas import inside
from padenet.torch.conversion.meaning.roles import Net
from padenet.torch.conversion.reading.operations import ALIASES
from padenet.torch.conversion.reading.values import Record, Value


def is_lost(value: Value, net: Net) -> bool:
    """What this call in place wrote is read later through another tensor on the same memory.

    Also in the forwards that gave the tensor to this one.
    """
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
        if v in net.owners:
            stack += [(arg, call) for call, arg in net.given(*net.owners[v])]
        stack += [(arg, writer) for arg in shared(v, net)]
        stack += [(u, writer) for u in others if u.time < writer.time and v in shared(u, net)]
    return False


Writes = list[tuple[Value, Value]]
"""What was written, or the call in which that was done, and into what."""


def all_writes(writes: Writes, net: Net) -> Writes:
    """``writes`` and the calls of modules that write, or may, into what they are given."""
    unread = net.calls.keys() - net.returns.keys() - net.hidden_modules
    found = [*writes, *((call, arg) for m in unread for call in net.calls[m] for arg in call.args)]
    seen: set[tuple[Value, Value]] = set()
    for _, target in found:  # which grows
        for v in aliased(target, net) & net.owners.keys():
            new = [pair for pair in net.given(*net.owners[v]) if pair not in seen]
            seen.update(new)
            found += new
    return found


def is_overwritten(value: Value, leaf: Value, net: Net, writes: Writes) -> bool:
    """A formula reads what has been written since its beginning, or it writes for others too."""
    if isinstance(value.activation, Activation):
        return False
    steps = inside(value, leaf)[0]
    begun = min(v.time for v in steps)
    inner = steps - {value}
    for v in inner:
        if v.inplace and (any(u not in steps for u in v.uses()) or is_lost(v, net)):
            return True
    for written, target in writes:
        if written is value or not begun <= written.time < value.time or written.dead:
            continue
        memory = aliased(target, net)
        for v in (*inner, leaf):
            later = (u for u in v.uses() if u in steps and u.time > written.time)
            if v.time < written.time and any(later) and aliased(v, net) & memory:
                return True
    return False


def aliased(value: Value, net: Net) -> set[Value]:
    """What ``value`` may share memory with, of what was there before."""
    found: set[Value] = set()
    stack = [value]
    while stack:
        v = stack.pop()
        if v not in found and v.op != "const":
            found.add(v)
            stack += shared(v, net)
    return found


def shared(v: Value, net: Net) -> list[Value]:
    """Those of its arguments with which ``v`` may share memory."""
    if v.op in ("join", "pack", "each", "store") or (v.op == "other" and not v.known):
        return v.args
    if v.op == "call":
        return v.args if gives_back(v.data, net) else []
    named = v.op in ("move", "apply") and (v.data in ALIASES or v.data[:1] in "[.")
    return v.args if named else v.args[:1] if v.inplace else []


def gives_back(module: nn.Module, net: Net) -> bool:
    """What ``module`` returns may share memory with what it is given."""
    if module not in net.back:
        net.back[module] = False  # for a module that calls itself
        if module in net.returns:
            given = set(net.inputs[module].values())
            net.back[module] = bool(aliased(net.returns[module], net) & given)
        else:
            inplace = getattr(module, "inplace", False)
            net.back[module] = inplace or module not in net.hidden_modules
    return net.back[module]


def names_to_bind(record: Record) -> list[str]:
    """Names of the tensor that was written into, which the text reads later."""
    value, frame = record.value, record.frame
    if not value.inplace:
        return []
    names = [n for n, v in record.env.items() if v is value and n != record.target]
    later = {n for n, time in frame.owner.reads if record.in_loop or time >= value.time}
    return [n for n in names if n in later]
