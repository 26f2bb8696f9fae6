"""The flow of values through a forward, read off its source: nothing of it is run.

Both sides of a branch are followed, unless the module's own settings decide it; a loop is followed
once. What is not understood becomes an unknown value, and so does what comes of it.
"""

import ast
import contextlib
import sys
from collections.abc import Hashable
from typing import Any

from padenet.torch.conversion.activations import FUNCTIONS, NAMES
from padenet.torch.conversion.reading.expressions import Expressions
from padenet.torch.conversion.reading.operations import PLAIN
from padenet.torch.conversion.reading.values import Frame, Value


def is_store(node: ast.Name) -> bool:
    return isinstance(node.ctx, (ast.Store, ast.Del))


ENDS = (ast.Return, ast.Raise, ast.Continue, ast.Break)


class Flow(Expressions):
    """A method ``do_X`` for each kind X of statement."""

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
        self.impure += isinstance(s, (ast.Assert, ast.Raise))
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

    def do_Delete(self, s: ast.Delete) -> bool:
        self.impure += 1
        for target in s.targets:
            base = self.eval(target.value) if isinstance(target, ast.Subscript) else None
            if base is not None and base.op == "pack":
                base.data, base.keys = "bag", ()
                base.add(self.new("join", base.args))
        return True

    def do_AugAssign(self, s: ast.AugAssign) -> bool:
        target: Any = ast.copy_location(type(s.target)(**dict(ast.iter_fields(s.target))), s.target)
        target.ctx = ast.Load()
        x, y = self.eval(target), self.eval(s.value)
        value = self.binary(s.op, x, y)
        if isinstance(s.target, ast.Name):
            value.inplace = value.op == "apply"
            self.writes.append((value, x))
            self.rebind(x, value)
            self.frame.env[s.target.id] = value
            self.record(s, value, s.target.id)
        else:
            self.writes.append((value, x))
            self.bind(s.target, value)
        return True

    def do_Import(self, s: ast.Import) -> bool:
        for alias in s.names:
            name = alias.name if alias.asname else alias.name.partition(".")[0]
            found = sys.modules.get(name)
            value = self.unknown(name) if found is None else self.const(found)
            self.frame.env[alias.asname or name] = value
        return True

    def do_ImportFrom(self, s: ast.ImportFrom) -> bool:
        function: Any = self.frame.source.function
        scope = function.__globals__
        package = scope.get("__package__") or ""
        home = package.split(".")[: len(package.split(".")) - s.level + 1] if s.level else []
        place = sys.modules.get(".".join([*home, *([s.module] if s.module else [])]))
        for alias in s.names:
            found = getattr(place, alias.name, self)
            value = self.unknown(alias.name) if found is self else self.object_of(found)
            self.frame.env[alias.asname or alias.name] = value
        return True

    def do_FunctionDef(self, s: ast.FunctionDef) -> bool:
        made = self.closure(s)
        for decorator in s.decorator_list:
            made = self.call(self.eval(decorator), [made], {})
        self.frame.env[s.name] = made
        return True

    def do_ClassDef(self, s: ast.ClassDef) -> bool:
        self.frame.env[s.name] = self.unknown(s.name)
        names = {getattr(n, "attr", getattr(n, "id", "")) for n in ast.walk(s)} & NAMES
        if names:
            self.tell(f"{', '.join(sorted(names))}: {s.name} is a class made in the forward")
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
        stored = {n.id for n in ast.walk(s) if isinstance(n, ast.Name) and is_store(n)}
        env.update({n: self.changing(n, env[n]) for n in stored & env.keys() - before.keys()})
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
        for name in stored & env.keys() - before.keys():
            env[name] = self.changing(name, env[name])
        broken = dict(env)
        reached = self.block(s.orelse)
        if any(isinstance(n, ast.Break) for part in s.body for n in ast.walk(part)):
            self.frame.env = self.merge([broken, self.frame.env]) if reached else broken

    def changing(self, name: str, value: Value) -> Value:
        """What a loop sets anew: a number or a function that is another one each time."""
        if value.is_const(*PLAIN):
            return self.new("meta") if value.data is not None else self.unknown(name)
        if value.op not in ("const", "closure"):
            return value
        made = self.unknown(name)
        if value.is_const(Hashable) and value.data in FUNCTIONS:
            self.tell(f"{value.data.__name__}: a loop sets {name}")
        return made

    def do_With(self, s: ast.With) -> bool:
        for item in s.items:
            value = self.eval(item.context_expr)
            if item.optional_vars:
                self.bind(item.optional_vars, value)
        before = dict(self.frame.env)
        reached = self.block(s.body)
        if any(i.optional_vars is None and self.suppresses(i.context_expr) for i in s.items):
            stopped = self.interrupted(before, s.body)
            self.frame.env = self.merge([self.frame.env, stopped]) if reached else stopped
            return True
        return reached

    def suppresses(self, node: ast.expr) -> bool:
        found = self.frame.values.get(node)
        return found is not None and self.hints.get(found, (None,))[0] is contextlib.suppress

    def interrupted(self, before: dict[str, Value], body: list[ast.stmt]) -> dict[str, Value]:
        """What names are where ``body``, which has been followed, ended at any of its steps."""
        env, after = dict(before), self.frame.env
        names = {n.id for s in body for n in ast.walk(s) if isinstance(n, ast.Name) and is_store(n)}
        for name in names & after.keys():
            values = [e[name] for e in (before, after) if name in e]
            env[name] = self.new("join", dict.fromkeys(values))
        return env

    def do_Try(self, s: ast.Try) -> bool:
        before = dict(self.frame.env)
        reached = self.block(s.body)
        start = self.interrupted(before, s.body)
        reached = reached and self.block(s.orelse)
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
