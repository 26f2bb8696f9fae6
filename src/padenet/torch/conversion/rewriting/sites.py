"""The calls and formulas in the text of a model's forwards that are activations."""

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from padenet.torch.conversion.activations import Activation
from padenet.torch.conversion.meaning.formulas import identify, inside, is_part
from padenet.torch.conversion.net import Forwards
from padenet.torch.conversion.reading.source import walk
from padenet.torch.conversion.reading.values import Frame, Record, Slot, Value
from padenet.torch.conversion.rewriting.forward import Change
from padenet.torch.conversion.rewriting.in_place import all_writes, is_overwritten, names_to_bind


@dataclass(eq=False)
class Site:
    """One expression, and what it was each time that its function was followed."""

    activation: Activation
    leaf: Value
    records: list[Record] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    slot: Slot | None = None
    why: str = ""  # it cannot be rewritten

    @property
    def module(self) -> nn.Module:
        found = self.records[0].frame.owner.module or self.values[0].home
        assert found is not None
        return found

    @property
    def line(self) -> int:
        return int(getattr(self.records[0].node, "lineno", 0))

    @property
    def where(self) -> str:
        return f"line {self.line}"

    @property
    def in_loop(self) -> bool:
        return any(r.in_loop for r in self.records)

    def change(self, unit: str) -> Change | None:
        """How to write the call of ``unit``, an attribute; "" keeps what is called."""
        record = self.records[0]
        me = name_in(record, lambda v: v.is_const(nn.Module) and v.data is self.module)
        argument = _argument(record, self.leaf)
        names = tuple(dict.fromkeys(n for r in self.records for n in names_to_bind(r)))
        lost = bool(unit) and _binds(record.node, argument)
        lost = lost or bool(names and record.frame.outer is not None)
        if me is None or lost or (unit and argument is None):
            return None
        return Change(me, unit, argument or "", names)


def name_in(record: Record, fits) -> str | None:  # type: ignore[no-untyped-def]
    frame: Frame | None = record.frame
    env = record.env
    while frame is not None:
        for name, value in env.items():
            if fits(value):
                return name
        frame = frame.outer
        env = frame.env if frame else {}
    return None


def _argument(record: Record, leaf: Value) -> ast.expr | str | None:
    """How the text of the record names ``leaf``: a part of the expression, or a variable."""
    for node in walk(record.node):
        inner = node is not record.node and isinstance(node, ast.expr)
        if inner and record.frame.values.get(node) is leaf:  # type: ignore[call-overload]
            return node  # type: ignore[return-value]
    return name_in(record, lambda v: v is leaf)


def _binds(node: ast.AST, kept: ast.AST | str | None) -> bool:
    """``node`` gives a value a name outside of ``kept``."""
    if node is kept:
        return False
    parts = ast.iter_child_nodes(node)
    return isinstance(node, ast.NamedExpr) or any(_binds(part, kept) for part in parts)


@dataclass
class Found:
    """``by_slot`` are the calls of modules that are activations, ``functions`` the rest."""

    functions: list[Site]
    by_slot: dict[Slot, list[Site]]
    parts: set[Value]  # activations that are a part of something unknown
    absorbed: set[Slot]  # modules that are called as a part of something known
    dead: list[tuple[nn.Module, str, int]]
    odd: list[tuple[nn.Module | None, str]]  # calls that no text or no table explains


def find(flow: Forwards) -> Found:
    known: dict[Value, tuple[Value, Activation]] = {}
    writes = all_writes(flow.writes, flow.net)
    for value in flow.made:
        if not value.dead and value.op == "apply":
            found = identify(value)
            if found is not None and not is_overwritten(value, found[0], flow.net, writes):
                known[value] = found
    whole = _absorb(known)
    by_value: dict[Value, list[Record]] = {}
    mixed = _mixed(flow.records, known)
    for r in flow.records:
        if (r.frame.owner.module, r.node) not in mixed:
            by_value.setdefault(r.value, []).append(r)
    sites: dict[object, Site] = {}
    parts: set[Value] = set()
    for value, (leaf, activation) in known.items():
        record: Record | None
        if value in whole:
            continue
        if is_part(value, whole):
            parts.add(value)
        record = _best(by_value.get(value, []), leaf)
        key = value if record is None else (record.frame.owner.module, record.node, value.slot)
        site = sites.get(key)
        if site is None:
            site = sites[key] = Site(activation, leaf, slot=value.slot)
            if record is not None:
                site.why = _why(record)
        elif site.activation.key != activation.key:
            site.why = "it is another function each time"
        site.values.append(value)
        if record is not None:
            site.records.append(record)
    alive = {
        (s.records[0].frame.owner.module, s.records[0].node) for s in sites.values() if s.records
    }
    absorbed = {value.slot for value in whole if value.slot is not None}
    odd = [
        (v.home, v.activation) for v in flow.made if isinstance(v.activation, str) and not v.dead
    ]
    chosen = [s for s in sites.values() if not s.records and s.slot is None]
    odd += [(s.values[0].home, f"{s.activation}: it is one of several functions") for s in chosen]
    dead = _dead(flow, alive)
    return Found(*_by_slot(sites.values()), parts, absorbed, dead, list(dict.fromkeys(odd)))


def _mixed(records: list[Record], known: Mapping[Value, Any]) -> set[object]:
    """Texts that are an activation at one time and something else at another."""
    texts: dict[object, set[bool]] = {}
    for r in records:
        if not r.value.dead and r.value.op == "apply":
            texts.setdefault((r.frame.owner.module, r.node), set()).add(r.value in known)
    return {text for text, found in texts.items() if len(found) > 1}


def _by_slot(sites: Iterable[Site]) -> tuple[list[Site], dict[Slot, list[Site]]]:
    functions, by_slot = [], {}  # type: ignore[var-annotated]
    for site in sites:
        if site.slot is not None:
            by_slot.setdefault(site.slot, []).append(site)
        elif site.records:
            functions.append(site)
    return functions, by_slot


def _absorb(known: dict[Value, tuple[Value, Activation]]) -> dict[Value, Value]:
    """For each step that serves only one known formula, the result of that formula."""
    whole: dict[Value, Value] = {}
    for value in sorted(known, key=lambda v: -v.time):
        if value in whole or isinstance(value.activation, Activation):
            continue
        steps = inside(value, known[value][0])[0] - {value}
        for step in sorted(steps, key=lambda v: -v.time):
            if all(u is value or whole.get(u) is value for u in step.uses()):
                whole[step] = value
    return whole


def _best(records: list[Record], leaf: Value) -> Record | None:
    """The innermost text that can be changed."""
    for record in records:
        if not _why(record) and _argument(record, leaf) is not None:
            return record
    return records[0] if records else None


def _why(record: Record) -> str:
    frame = record.frame.owner
    if frame.why:
        return frame.why
    return "" if frame.module is not None else "its text is in no method"


def _dead(flow: Forwards, alive: set[Any]) -> list[tuple[nn.Module, str, int]]:
    found: dict[object, tuple[nn.Module, str, int]] = {}
    for record in flow.records:
        value, module = record.value, record.frame.owner.module
        key = (module, record.node)
        lost = value.dead and value.slot is None and isinstance(value.activation, Activation)
        if lost and module is not None and key not in alive:
            found[key] = (module, str(value.activation), record.node.lineno)
    return list(found.values())
