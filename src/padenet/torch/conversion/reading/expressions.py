"""The value of each expression in a forward."""

import ast
import builtins
from typing import Any

from torch import nn

from padenet.torch.conversion.reading.calls import Calls
from padenet.torch.conversion.reading.operations import (
    AFFINE,
    BINARY,
    CHANGERS,
    COMPARE,
    META,
    MOVES,
    PLAIN,
    UNARY,
)
from padenet.torch.conversion.reading.values import Frame, Record, Value


class Expressions(Calls):
    """A method ``on_X`` for each kind X of expression that is understood."""

    def merge(self, envs: list[dict[str, Value]]) -> dict[str, Value]:
        merged = dict(envs[0])
        for env in envs[1:]:
            for name, value in env.items():
                if name in merged and merged[name] is not value:
                    merged[name] = self.new("join", [merged[name], value])
                else:
                    merged[name] = value
        return merged

    def bind(self, target: Any, value: Value) -> None:
        if isinstance(target, ast.Name):
            self.frame.env[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            starred = any(isinstance(t, ast.Starred) for t in target.elts)
            parts = None if starred else self.unpack(value, len(target.elts))
            for i, part in enumerate(target.elts):
                whole = self.new("move", [value], "getitem") if parts is None else parts[i]
                self.bind(part.value if isinstance(part, ast.Starred) else part, whole)
        elif isinstance(target, ast.Subscript):
            base = self.eval(target.value)
            key = self.eval(target.slice)
            if base.op == "pack":
                if base.data == "dict" and key.is_const(str):
                    base.keys += (key.data,)
                else:
                    base.data, base.keys = "bag", ()
            self.writes.append((self.new("other", [value]), base))
            self.put(base, value, ast.unparse(target))
        elif isinstance(target, ast.Attribute):
            self.put(self.eval(target.value), value, ast.unparse(target))

    def put(self, base: Value, value: Value, what: str) -> None:
        """``value`` goes into ``base``, which may outlive the forward."""
        if base.op == "pack":
            base.add(value)
        else:
            self.impure += 1
            self.new("store", [value], what)
            if base.op not in ("const", "tensor"):
                base.add(value)

    def truth(self, value: Value) -> bool | None:
        if value.is_const(*PLAIN):
            return bool(value.data)
        return True if value.is_const(nn.Module) else None

    def eval(self, node: Any) -> Value:
        visit = getattr(self, f"on_{type(node).__name__}", None)
        if visit is not None:
            value: Value = visit(node)
        else:
            parts = [self.eval(c) for c in ast.iter_child_nodes(node) if isinstance(c, ast.expr)]
            value = self.new("other", parts, type(node).__name__)
            value.known = False
            if isinstance(node, (ast.Yield, ast.YieldFrom, ast.Await)):
                self.impure += 1
        self.frame.values[node] = value
        if value.op in ("apply", "call") and not isinstance(node, (ast.Name, ast.NamedExpr)):
            self.record(node, value)
        return value

    def record(self, node: Any, value: Value, target: str | None = None) -> None:
        frame = self.frame
        made = Record(value, frame, node, dict(frame.env), target, frame.loops > 0)
        self.records.append(made)

    def on_Constant(self, node: ast.Constant) -> Value:
        return self.const(node.value)

    def on_Name(self, node: ast.Name) -> Value:
        frame: Frame | None = self.frame
        self.frame.owner.reads.append((node.id, self.clock))
        while frame is not None:
            if node.id in frame.env:
                found = frame.env[node.id]
                shared = node.id in frame.source.shared and found.op != "closure"
                return self.unknown(node.id, [found]) if shared else found
            frame = frame.outer
        function: Any = self.frame.source.function
        free = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        try:
            if node.id in free:
                return self.object_of(free[node.id].cell_contents)
        except ValueError:  # an empty cell
            return self.unknown(node.id)
        found = function.__globals__.get(node.id, getattr(builtins, node.id, self))
        if node.id in self.stored and isinstance(found, PLAIN):
            return self.new("meta")
        return self.unknown(node.id) if found is self else self.object_of(found)

    def on_NamedExpr(self, node: ast.NamedExpr) -> Value:
        value = self.eval(node.value)
        self.frame.env[node.target.id] = value
        return value

    def on_Attribute(self, node: ast.Attribute) -> Value:
        base = self.eval(node.value)
        if base.op == "const":
            return self.attribute(base, self.frame.source.private(node.attr))
        if base.op == "meta" or node.attr in META:
            return self.new("meta")
        return self.new("move", [base], node.attr if node.attr in MOVES else f".{node.attr}")

    def on_Subscript(self, node: ast.Subscript) -> Value:
        return self.item(self.eval(node.value), self.eval(node.slice))

    def on_Slice(self, node: ast.Slice) -> Value:
        ends = [
            self.eval(e) if e else self.const(None) for e in (node.lower, node.upper, node.step)
        ]
        if all(e.is_const(*PLAIN) for e in ends):
            return self.const(slice(*(e.data for e in ends)))
        return self.new("meta")

    def on_Tuple(self, node: Any) -> Value:
        parts = [self.eval(e) for e in node.elts]
        if parts and all(p.op == "meta" or p.is_const(*PLAIN) for p in parts):
            return self.new("meta") if any(p.op == "meta" for p in parts) else self.pack(parts)
        return self.pack(parts)

    on_List = on_Tuple
    on_Set = on_Tuple

    def on_Dict(self, node: ast.Dict) -> Value:
        pairs = [
            (k and self.eval(k), self.eval(v)) for k, v in zip(node.keys, node.values, strict=True)
        ]
        parts = [value if key else self.each(value) for key, value in pairs]  # {**value}
        value = self.new("pack", parts, "dict")
        if all(k and k.is_const(str) for k, _ in pairs):
            value.keys = tuple(k.data for k, _ in pairs if k)
        return value

    def on_Starred(self, node: ast.Starred) -> Value:
        return self.new("each", [self.each(self.eval(node.value))])

    def on_JoinedStr(self, node: ast.JoinedStr) -> Value:
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                self.eval(part.value)
        return self.new("meta")

    def on_IfExp(self, node: ast.IfExp) -> Value:
        known = self.truth(self.eval(node.test))
        sides, envs, start = [], [], self.frame.env
        for side, part in ((True, node.body), (False, node.orelse)):
            self.frame.env = dict(start)
            dead = self.dead
            self.dead = dead or (known is not None and known != side)
            value = self.eval(part)
            self.dead = dead
            if known is None or known == side:
                sides.append(value)
                envs.append(self.frame.env)
        self.frame.env = self.merge(envs)
        return sides[0] if len(sides) == 1 else self.new("join", sides)

    def on_BoolOp(self, node: ast.BoolOp) -> Value:
        values = [self.eval(v) for v in node.values]
        known = [self.truth(v) for v in values]
        stop = isinstance(node.op, ast.Or)
        if stop in known and None not in known[: known.index(stop)]:
            return values[known.index(stop)]
        if None not in known:
            return values[-1]
        if not stop and False in known:
            return self.const(False)
        return self.new("join", values)

    def on_UnaryOp(self, node: ast.UnaryOp) -> Value:
        x, name = self.eval(node.operand), type(node.op).__name__
        if name == "Not":
            known = self.truth(x)
            return self.new("meta") if known is None else self.const(not known)
        return self.apply(AFFINE.get(name, name), UNARY[name], [x])

    def on_BinOp(self, node: ast.BinOp) -> Value:
        return self.binary(node.op, self.eval(node.left), self.eval(node.right))

    def binary(self, operation: ast.operator, x: Value, y: Value) -> Value:
        name = type(operation).__name__
        if name in BINARY and not {x.op, y.op} & {"pack", "each", "closure"}:
            return self.apply(AFFINE.get(name, name.lower()), BINARY[name], [x, y])
        if name == "MatMult":
            return self.new("product", [x, y], "matmul")
        if "pack" in (x.op, y.op):
            parts = [part for v in (x, y) for part in (v.args if v.op == "pack" else [v])]
            ordered = name == "Add" and x.data == y.data == "list"
            return self.new("pack", parts, "list" if ordered else "bag")
        return self.new("other", [x, y], name)

    def on_Compare(self, node: ast.Compare) -> Value:
        parts = [self.eval(node.left), *map(self.eval, node.comparators)]
        name = type(node.ops[0]).__name__
        if not any(p.is_const(type(None)) for p in parts):
            self.ask(parts, "identity")
        if len(parts) == 2 and name in COMPARE:
            x, y = parts
            if name in ("Is", "IsNot"):
                made = {x.op, y.op} & {"apply", "call", "product", "move", "pack"}
                if x.op == y.op == "const":
                    return self.const(COMPARE[name](x.data, y.data))
                if made and any(p.is_const(type(None)) for p in parts) and "move" not in made:
                    return self.const(name == "IsNot")
                return self.new("meta")
            return self.apply(name.lower(), COMPARE[name], parts)
        return self.new("meta")

    def on_Lambda(self, node: ast.Lambda) -> Value:
        return self.closure(node)

    def closure(self, tree: Any) -> Value:
        a = tree.args
        names = [p.arg for p in (*a.posonlyargs, *a.args)]
        pairs = [*zip(names[len(names) - len(a.defaults) :], a.defaults, strict=True)]
        pairs += [(p.arg, d) for p, d in zip(a.kwonlyargs, a.kw_defaults, strict=True) if d]
        defaults = {name: self.eval(node) for name, node in pairs}
        return self.new("closure", data=(tree, self.frame, defaults))

    def on_ListComp(self, node: Any) -> Value:
        env = dict(self.frame.env)
        self.frame.loops += 1
        for generator in node.generators:
            self.bind(generator.target, self.each(self.eval(generator.iter)))
            for condition in generator.ifs:
                self.eval(condition)
        if isinstance(node, ast.DictComp):
            self.eval(node.key)
        element = self.eval(node.value if isinstance(node, ast.DictComp) else node.elt)
        self.frame.loops -= 1
        self.frame.env = env
        return self.new("each", [element])

    on_SetComp = on_ListComp
    on_GeneratorExp = on_ListComp
    on_DictComp = on_ListComp

    def on_Call(self, node: ast.Call) -> Value:
        base = None
        if isinstance(node.func, ast.Attribute):
            base = self.eval(node.func.value)
            if base.is_const(list, dict, set) and node.func.attr in CHANGERS:
                for part in node.args:
                    self.put(base, self.eval(part), ast.unparse(node.func.value))
                return self.const(None)
            name = self.frame.source.private(node.func.attr)
            callee = self.attribute(base, name) if base.op == "const" else None
            if callee is not None:
                self.frame.values[node.func] = callee
        else:
            callee = self.eval(node.func)
        args = [self.eval(a) for a in node.args]
        given = {k.arg or "**": self.eval(k.value) for k in node.keywords}
        if callee is None:
            assert base is not None
            return self.method(base, node.func.attr, args, given)  # type: ignore[attr-defined]
        if callee.is_const() and callee.data is super:
            return self.super_of(args)
        return self.call(callee, args, given)

    def super_of(self, args: list[Value]) -> Value:
        known = len(args) == 2 and args[0].is_const(type) and args[1].is_const(nn.Module)
        if known and isinstance(args[1].data, args[0].data):
            return self.const(super(args[0].data, args[1].data))
        function, module = self.frame.source.function, self.frame.owner.module
        free = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        if not args and "__class__" in free and isinstance(module, free["__class__"].cell_contents):
            return self.const(super(free["__class__"].cell_contents, module))
        return self.unknown("super")
