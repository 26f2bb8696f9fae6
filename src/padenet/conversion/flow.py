"""The flow of values through a forward, read off its source: nothing of it is run.

Both sides of a branch are followed, unless the module's own settings decide it; a loop is followed
once. What is not understood becomes an unknown value, and so does what comes of it.
"""

import ast
import builtins
from typing import Any

import torch
from torch import nn

from padenet.conversion.calls import Calls
from padenet.conversion.operations import AFFINE, BINARY, CHANGERS, COMPARE, META, MOVES, PLAIN, UNARY
from padenet.conversion.values import Frame, Record, Value

ENDS = (ast.Return, ast.Raise, ast.Continue, ast.Break)


class Flow(Calls):
    """Follows forwards, and keeps what it finds by module."""

    def follow(self, frame: Frame) -> Value:
        """What the function returns."""
        outside, self.frame = self.frame, frame
        dead = self.dead
        tree = frame.source.tree
        try:
            if isinstance(tree, ast.Lambda):
                self.give_back(self.eval(tree.body))
            else:
                self.block(tree.body)
        finally:
            self.frame, self.dead = outside, dead
        if len(frame.returns) == 1:
            return frame.returns[0]
        return self.new("join", frame.returns) if frame.returns else self.const(None)

    def give_back(self, value: Value) -> None:
        if not self.dead:
            self.frame.returns.append(value)

    def block(self, statements: list[ast.stmt]) -> bool:
        """Whether the end is reached; what follows a return is read all the same, as dead."""
        for i, statement in enumerate(statements):
            if not self.statement(statement):
                dead, self.dead = self.dead, True
                env = dict(self.frame.env)
                self.block(statements[i + 1 :])
                self.dead, self.frame.env = dead, env
                return False
        return True

    def statement(self, s: Any) -> bool:
        visit = getattr(self, f"do_{type(s).__name__}", None)
        if visit is not None:
            return bool(visit(s))
        for child in ast.iter_child_nodes(s):
            if isinstance(child, ast.expr):
                self.eval(child)
        self.impure += isinstance(s, (ast.Assert, ast.Raise, ast.Delete))
        if isinstance(s, (ast.Global, ast.Nonlocal)):
            self.impure += 1
            for name in s.names:
                self.frame.env.pop(name, None)
        return not isinstance(s, ENDS)

    def do_Return(self, s: ast.Return) -> bool:
        value = self.eval(s.value) if s.value else self.const(None)
        self.give_back(value)
        if self.frame.outer is None:
            self.new("return", [value])
        return False

    def do_Assign(self, s: ast.Assign) -> bool:
        value = self.eval(s.value)
        for target in s.targets:
            self.bind(target, value)
        if len(s.targets) == 1 and isinstance(s.targets[0], ast.Name):
            self.note_target(s.value, s.targets[0].id)
        return True

    def do_AnnAssign(self, s: ast.AnnAssign) -> bool:
        if s.value:
            self.bind(s.target, self.eval(s.value))
            if isinstance(s.target, ast.Name):
                self.note_target(s.value, s.target.id)
        return True

    def note_target(self, node: ast.expr, name: str) -> None:
        for record in reversed(self.records):
            if record.node is node:
                record.target = name
                return

    def do_AugAssign(self, s: ast.AugAssign) -> bool:
        target: Any = ast.copy_location(type(s.target)(**dict(ast.iter_fields(s.target))), s.target)
        target.ctx = ast.Load()
        x, y = self.eval(target), self.eval(s.value)
        value = self.binary(s.op, x, y)
        if isinstance(s.target, ast.Name):
            value.inplace = value.op == "apply"
            self.rebind(x, value)
            self.frame.env[s.target.id] = value
            self.record(s, value, s.target.id)
        else:
            self.bind(s.target, value)
        return True

    def do_FunctionDef(self, s: ast.FunctionDef) -> bool:
        self.frame.env[s.name] = self.closure(s)
        return True

    def do_If(self, s: ast.If) -> bool:
        known = self.truth(self.eval(s.test))
        start = dict(self.frame.env)
        results = []
        for side, statements in ((True, s.body), (False, s.orelse)):
            self.frame.env = dict(start)
            dead = self.dead
            self.dead = dead or (known is not None and known != side)
            reached = self.block(statements)
            if reached and (known is None or known == side):
                results.append(self.frame.env)
            self.dead = dead
        self.frame.env = self.merge(results) if results else start
        return bool(results)

    def do_For(self, s: ast.For) -> bool:
        element = self.each(self.eval(s.iter))
        self.loop(s, lambda: self.bind(s.target, element))
        return True

    def do_While(self, s: ast.While) -> bool:
        self.loop(s, lambda: self.eval(s.test))
        return True

    def loop(self, s: Any, begin: Any) -> None:
        env = self.frame.env
        names = {n.id for n in ast.walk(s) if isinstance(n, ast.Name)}
        before = {n: env[n] for n in names & env.keys() if env[n].op not in ("const", "closure")}
        around = {n: self.new("join", [v]) for n, v in before.items()}
        env.update(around)
        self.frame.loops += 1
        begin()
        self.block(s.body)
        self.frame.loops -= 1
        env = self.frame.env
        for name, join in around.items():
            after = env.get(name, join)
            if after is join:
                env[name] = before[name]
            else:
                join.add(after)
                env[name] = self.new("join", [before[name], after])
        self.block(s.orelse)

    def do_With(self, s: ast.With) -> bool:
        for item in s.items:
            value = self.eval(item.context_expr)
            if item.optional_vars:
                self.bind(item.optional_vars, value)
        return self.block(s.body)

    def do_Try(self, s: ast.Try) -> bool:
        start = dict(self.frame.env)
        reached = self.block(s.body) and self.block(s.orelse)
        results = [self.frame.env] if reached else []
        for handler in s.handlers:
            self.frame.env = dict(start)
            if self.block(handler.body):
                results.append(self.frame.env)
        self.frame.env = self.merge(results) if results else start
        return self.block(s.finalbody) and bool(results)

    def do_Match(self, s: ast.Match) -> bool:
        subject = self.eval(s.subject)
        start = dict(self.frame.env)
        results = [start]
        for case in s.cases:
            self.frame.env = dict(start)
            for node in ast.walk(case.pattern):
                name = getattr(node, "name", None) or getattr(node, "rest", None)
                if name:
                    self.frame.env[name] = self.new("move", [subject], "getitem")
            if self.block(case.body):
                results.append(self.frame.env)
        self.frame.env = self.merge(results)
        return True

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
            if base.op == "pack" and base.data == "dict":
                base.keys += (key.data if key.is_const(str) else "",)
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
        made = Record(value, frame, node, self.home, dict(frame.env), target, frame.loops > 0)
        self.records.append(made)

    def on_Constant(self, node: ast.Constant) -> Value:
        return self.const(node.value)

    def on_Name(self, node: ast.Name) -> Value:
        frame: Frame | None = self.frame
        self.frame.owner.reads.append((node.id, self.clock))
        while frame is not None:
            if node.id in frame.env:
                return frame.env[node.id]
            frame = frame.outer
        function = self.frame.source.function
        free = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        try:
            if node.id in free:
                return self.object(free[node.id].cell_contents)
        except ValueError:  # an empty cell
            return self.unknown(node.id)
        found = function.__globals__.get(node.id, getattr(builtins, node.id, self))
        return self.unknown(node.id) if found is self else self.object(found)

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
        ends = [self.eval(e) if e else self.const(None) for e in (node.lower, node.upper, node.step)]
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
        keys = [self.eval(k) if k is not None else self.const(None) for k in node.keys]
        value = self.new("pack", [self.eval(v) for v in node.values], "dict")
        if all(k.is_const(str) for k in keys):
            value.keys = tuple(k.data for k in keys)
        return value

    def on_Starred(self, node: ast.Starred) -> Value:
        return self.new("each", [self.each(self.eval(node.value))])

    def on_JoinedStr(self, node: ast.JoinedStr) -> Value:
        return self.new("meta")

    def on_IfExp(self, node: ast.IfExp) -> Value:
        known = self.truth(self.eval(node.test))
        sides = []
        for side, part in ((True, node.body), (False, node.orelse)):
            dead = self.dead
            self.dead = dead or (known is not None and known != side)
            value = self.eval(part)
            self.dead = dead
            if known is None or known == side:
                sides.append(value)
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
        if x.op == "pack" and y.op == "pack":
            return self.new("pack", [*x.args, *y.args], "list")
        if name == "MatMult":
            return self.new("product", [x, y], "matmul")
        return self.new("other", [x, y], name)

    def on_Compare(self, node: ast.Compare) -> Value:
        parts = [self.eval(node.left), *map(self.eval, node.comparators)]
        name = type(node.ops[0]).__name__
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
        return self.new("closure", data=(tree, self.frame))

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
        if callee.is_const() and callee.data is super and not args:
            return self.super_of()
        return self.call(callee, args, given)

    def super_of(self) -> Value:
        function, module = self.frame.source.function, self.frame.owner.module
        free = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        if "__class__" in free and isinstance(module, free["__class__"].cell_contents):
            return self.const(super(free["__class__"].cell_contents, module))
        return self.unknown("super")

    def object(self, found: Any) -> Value:
        """An object that the code reaches by name."""
        if isinstance(found, torch.Tensor):
            return self.new("tensor", data=found)
        return self.const(found)
