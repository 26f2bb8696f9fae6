"""What a value is for: the hidden units of a network, a gate, or what leaves the model.

The rule follows a value through what only moves, scales or shifts it, through modules and methods.
It is a gate where it then multiplies another tensor that depends on the input, it normalises where
it is divided by what is computed from itself, and it leaves the model where the root returns it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from torch import nn

from padenet.torch.conversion.activations import BOUNDED, Activation
from padenet.torch.conversion.reading.values import Value, has_data

OUTPUT = "leaves the model"
GATE = "multiplies another tensor: a gate"
NORMAL = "is divided by what comes of it: it normalises"
UNKNOWN = "what becomes of it cannot be seen"
HIDDEN = "hidden"
CHANCE = "is taken as a probability"
CHANCES = {"bernoulli", "bernoulli_", "multinomial", "binary_cross_entropy"}
DEEPEST = 6  # containers in containers
SCALES = {"add", "sub", "mul", "div", "neg", "to"}
OUTRIGHT = (nn.Sigmoid, nn.Tanh)
"""Bounded activations that are mostly gates and outputs where nothing is known; ReLU6 is not."""


@dataclass
class Net:
    """How the forwards hang together."""

    root: nn.Module
    inputs: dict[nn.Module, dict[str, Value]] = field(default_factory=dict)
    returns: dict[nn.Module, Value] = field(default_factory=dict)
    calls: dict[nn.Module, list[Value]] = field(default_factory=dict)
    hidden_modules: set[nn.Module] = field(default_factory=set)  # torch's, which do not gate
    returned: dict[Value, list[nn.Module]] = field(default_factory=dict)  # ``returns``, inverted
    back: dict[nn.Module, bool] = field(default_factory=dict)  # see ``gives_back``

    @cached_property
    def owners(self) -> dict[Value, tuple[nn.Module, str]]:
        """``inputs``, inverted, when all forwards have been followed."""
        return {v: (module, name) for module, ins in self.inputs.items() for name, v in ins.items()}

    def before(self, value: Value) -> list[Value]:
        """What ``value`` is made of, also in a child and in the forwards that call this one."""
        if value.op == "call" and value.data in self.returns:
            return [self.returns[value.data]]
        if value in self.owners:
            return [arg for _, arg in self.given(*self.owners[value])]
        return value.args

    def given(self, module: nn.Module, name: str) -> Iterator[tuple[Value, Value]]:
        """Each call of ``module``, and what it gives for the argument ``name``."""
        place = list(self.inputs[module]).index(name)
        for call in self.calls.get(module, []):
            count = len(call.args) - len(call.keys)
            if place < count:
                yield call, call.args[place]
            elif name in call.keys:
                yield call, call.args[count + call.keys.index(name)]


def why_left(activation: Activation, values: Iterable[Value], net: Net) -> str:
    """Why an activation with these results is no hidden one; "" where it is."""
    roles: set[str] = set()
    for value in values:
        roles |= find_roles(value, net)
    bounded, outright = (issubclass(activation.kind.module, k) for k in (BOUNDED, OUTRIGHT))
    if NORMAL in roles:
        return NORMAL
    if GATE in roles and bounded:
        return GATE
    if OUTPUT in roles and (outright or HIDDEN not in roles):
        return OUTPUT
    if CHANCE in roles and outright:
        return CHANCE
    if UNKNOWN in roles and outright:
        return UNKNOWN
    return ""


Path = tuple[tuple[int, str | None], ...]
"""Where in nested containers a value is: its place and name in each, the innermost first.

The name is "" where there is none, None where neither name nor place is known.
"""


def find_roles(value: Value, net: Net) -> set[str]:
    roles: set[str] = set()
    seen: set[tuple[Value, Path]] = set()
    stack: list[tuple[Value, Path]] = [(value, ())]
    while stack:
        v, path = stack.pop()
        if (v, path) in seen or len(path) > DEEPEST:
            continue
        seen.add((v, path))
        for module in net.returned.get(v, ()):
            if module is net.root:
                roles.add(OUTPUT)
            elif net.calls.get(module):
                stack += [(call, path) for call in net.calls[module]]
            else:
                roles.add(UNKNOWN)
        for user in v.uses():
            for role in _roles(v, user, path, net):
                if isinstance(role, str):
                    roles.add(role)
                else:
                    stack.append(role)
    return roles


def _roles(v: Value, user: Value, path: Path, net: Net) -> list[str | tuple[Value, Path]]:
    """What one user makes of ``v``, or the values in which that shows."""
    if user.op == "pack":
        count = len(user.args) - len(user.keys)
        unnamed = None if user.data in ("dict", "bag") else ""
        names = [*[unnamed] * count, *user.keys]
        return [
            (user, (at, *path))
            for at, arg in zip(enumerate(names), user.args, strict=True)
            if arg is v
        ]
    if user.op in ("join", "each"):
        return [(user, path)]
    if user.op == "move":
        return _take(user, path)
    if user.op == "store":
        return [UNKNOWN]
    if user.op == "return":
        return []
    if user.op == "call":
        return _enter(v, user, path, net)
    others = [a for a in user.args if a is not v and has_data(a)]
    if user.op == "product":
        return [GATE if others else HIDDEN]
    if user.op == "apply" and user.data in SCALES:
        if user.data == "div" and user.args[1] is not v and comes_from(user.args[1], v):
            return [NORMAL]
        if user.data in ("mul", "div"):
            weights = any(a is not v and a.op == "tensor" for a in user.args)
            return [GATE] if others else [HIDDEN] if weights else [(user, path)]
        return [HIDDEN] if others else [(user, path)]
    if user.op == "other" and not user.known:
        return [UNKNOWN]
    if user.op == "other" and user.data in CHANCES:
        return [CHANCE]
    return [HIDDEN] if user.op != "meta" else []


def _take(user: Value, path: Path) -> list[str | tuple[Value, Path]]:
    """Out of a container by name or number: nothing, if it is another's."""
    if not path:
        return [(user, path)]
    what, (place, name) = str(user.data), path[0]
    if name is None:
        return [(user, path[1:])]
    if what.startswith(".") and name and what[1:] != name:
        return []
    if what.startswith("[") and what[1:-1] not in (str(place), name):
        return []
    return [(user, path[1:])]


def _enter(v: Value, call: Value, path: Path, net: Net) -> list[str | tuple[Value, Path]]:
    child = call.data
    if child in net.hidden_modules:
        return [CHANCE if isinstance(child, nn.BCELoss) else HIDDEN]
    inputs = net.inputs.get(child)
    if inputs is None:
        return [UNKNOWN]
    names = list(inputs)
    count = len(call.args) - len(call.keys)
    taken: list[str | tuple[Value, Path]] = []
    for i, arg in enumerate(call.args):
        if arg is v:
            name = (names[i] if i < len(names) else "") if i < count else call.keys[i - count]
            taken.append((inputs[name], path) if name in inputs else UNKNOWN)
    return taken


def comes_from(value: Value, source: Value) -> bool:
    seen: set[Value] = set()
    stack = [value]
    while stack:
        v = stack.pop()
        if v is source:
            return True
        if v not in seen:
            seen.add(v)
            stack += v.args
    return False


def is_quantised(value: Value, net: Net) -> bool:
    """What the activation is given comes from a quantised module or operation."""
    seen: set[Value] = set()
    stack = list(value.args[:1])
    while stack:
        v = stack.pop()
        if v in seen:
            continue
        seen.add(v)
        if v.op == "call" and v.data in net.hidden_modules:
            home = type(v.data).__module__
            kind = type(v.data).__name__
            if ".quantized" in home and ".dynamic" not in home and kind != "DeQuantize":
                return True
            if kind != "DeQuantize" and not any(True for _ in v.data.parameters()):
                stack += v.args
        elif v.op == "other" and str(v.data).startswith("quantize_per"):
            return True
        elif v.op != "call" or v.data in net.returns:
            stack += net.before(v)
    return False
