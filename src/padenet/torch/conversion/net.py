"""The forwards of a model's modules, followed from the innermost outwards, and how they join."""

import inspect
from typing import Any

from torch import fx, nn

from padenet.torch.conversion.activations import Activation, read_module
from padenet.torch.conversion.meaning.formulas import formula_of, identify, inside
from padenet.torch.conversion.meaning.roles import Net
from padenet.torch.conversion.reading.calls import defaults_of
from padenet.torch.conversion.reading.flow import Flow
from padenet.torch.conversion.reading.operations import WRAPPERS, is_torch
from padenet.torch.conversion.reading.source import can_decorate, read
from padenet.torch.conversion.reading.stored import reached_by
from padenet.torch.conversion.reading.values import Frame, Value


def _inside_out(root: nn.Module) -> list[nn.Module]:
    """Every module once, after all that it holds, also where several hold it."""
    found: list[nn.Module] = []
    seen: set[nn.Module] = set()

    def visit(module: nn.Module) -> None:
        seen.add(module)
        for child in module.children():
            if child not in seen:
                visit(child)
        found.append(module)

    visit(root)
    return found


class Forwards(Flow):
    """``unread`` says why a module's forward is not known, or cannot be changed."""

    def __init__(self, root: nn.Module):
        super().__init__()
        self.net = Net(root)
        self.unread: dict[nn.Module, str] = {}
        classes = {type(module) for module in root.modules()}
        self.reached = {cls: reached_by(cls) for cls in classes}
        self.stored = set().union(*(r.stores for r in self.reached.values()))
        self.inner: set[nn.Module] = set()  # what is inside a module that is an activation
        for holder in root.modules():
            for name, child in holder._modules.items():
                if child is not None:
                    self.slots.setdefault(child, (holder, name))
        for module in root.modules():
            found = read_module(module)
            if found is not None:
                self.whole[module] = found
        for module in _inside_out(root):
            if module not in self.whole:
                self.read_module(module)
        for module, returned in self.net.returns.items():
            self.net.returned.setdefault(returned, []).append(module)
        for value in self.made:
            if value.op == "call" and not value.dead:
                self.net.calls.setdefault(value.data, []).append(value)

    def read_module(self, module: nn.Module) -> None:
        forward = getattr(type(module), "forward", None)
        if type(module).forward is nn.Sequential.forward:
            self.chain(module, list(module._modules))
        elif isinstance(module, WRAPPERS):
            self.chain(module, ["module"])
        elif "forward" in vars(module):
            self.unread[module] = "its forward is set on the instance"
        elif is_torch(forward) and not isinstance(module, fx.GraphModule):
            if type(module).forward is not nn.Module.forward:
                self.net.hidden_modules.add(module)
        else:
            self.read_forward(module, forward)

    def chain(self, module: nn.Module, names: list[str]) -> None:
        """A forward that calls its children one after the other."""
        value = first = self.new("input", data="input")
        for name in names:
            value = self.call_module(self.child(module, name), [value], {})
        self.net.inputs[module], self.net.returns[module] = {"input": first}, value

    def read_forward(self, module: nn.Module, forward: Any) -> None:
        inner = inspect.unwrap(forward)
        source = read(inner) if inspect.isfunction(inner) else "its forward is no plain function"
        if isinstance(source, str):
            self.unread[module] = source
            return
        why = "" if can_decorate(forward, inner) else "its forward is decorated"
        if why:
            self.unread[module] = why
        arguments = source.tree.args
        names = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
        env: dict[str, Value] = {names[0]: self.const(module)} if names else {}
        inputs = {a: self.new("input", data=a) for a in names[1:]}
        inputs |= {a.arg: self.new("input", data=a.arg) for a in arguments.kwonlyargs}
        for name, held in defaults_of(inner).items():
            if name in inputs:
                self.hints[inputs[name]] = (held, f"it is the default of the argument {name}")
        env |= inputs
        if arguments.vararg:
            env[arguments.vararg.arg] = self.new("each", [self.new("input", data="*")])
        if arguments.kwarg:
            env[arguments.kwarg.arg] = self.new("pack", [self.new("input", data="**")], "dict")
        before, kept = self.impure, (len(self.records), len(self.made))
        self.stack, self.home = [(source.tree, module)], module
        try:
            returned = self.follow(Frame(source, module, "forward", env, why))
        except Exception as e:  # what no rule here foresaw; nothing of it is used
            self.drop(kept)
            self.frame, self.dead = None, False  # type: ignore[assignment]
            self.unread[module] = f"its forward cannot be followed ({type(e).__name__})"
            return
        self.net.inputs[module], self.net.returns[module] = inputs, returned
        if self.impure == before and inner is forward:
            self.read_formula(module, inputs, returned, kept)

    def drop(self, kept: tuple[int, int]) -> None:
        del self.records[kept[0] :], self.made[kept[1] :]

    def read_formula(
        self, module: nn.Module, inputs: dict[str, Value], returned: Value, kept: tuple[int, int]
    ) -> None:
        """A module that computes a function of each number by itself, as an activation does."""
        if any(True for _ in module.parameters()) or any(True for _ in module.buffers()):
            return
        leaf = next(iter(inputs.values()), None)
        if leaf is None or inside(returned)[1] != {leaf} or isinstance(module, fx.GraphModule):
            return
        found = identify(returned)
        if found is None or found[0] is not leaf:
            self.formulas[module] = formula_of(returned, leaf)
        else:
            known = found[1]
            name = type(module).__name__
            self.whole[module] = Activation(
                known.kind, known.values, name, known.inplace, known.slopes
            )
            self.inner |= set(module.modules()) - {module}
            self.drop(kept)
