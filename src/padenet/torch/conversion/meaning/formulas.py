"""Formulas of one tensor, by what they compute: GELU is GELU, however it is written.

A formula is evaluated in float64 on a grid and compared with the activations that are known.
"""

import contextlib
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from padenet.torch.conversion.activations import KINDS, MODULES, Activation, Kind, make_activation
from padenet.torch.conversion.reading.values import Value, has_data

GRID = torch.cat(
    [
        torch.linspace(-12, 12, 241, dtype=torch.float64),
        torch.tensor([-50.0, -20.0, 1e-3, -1e-3, 20.0, 50.0], dtype=torch.float64),
    ]
)
LONGEST = 80  # steps of a formula
COMPARISONS = ("gt", "lt", "gte", "lte", "ge", "le", "eq", "ne", "noteq")
CLOSE = 1e-7  # constants such as 0.7978845608 have ten digits
CLOSE_GELU = 1e-4  # the tanh formula with constants of four digits; the two GELUs are 5e-4 apart


def _swish(x: Tensor, beta: float = 1.0) -> Tensor:
    return x * torch.sigmoid(beta * x)


def _squared_relu(x: Tensor) -> Tensor:
    return F.relu(x).square()


SWISH = Kind(nn.SiLU, _swish, "swish", {"beta": 1.0})
SQUARED_RELU = Kind(nn.Module, _squared_relu)
NAMES = {_swish: "silu", _squared_relu: "relu2"}
LINEAR = 1e-3  # a swish with a smaller slope is x / 2, a leaky ReLU this close to 1 is x
PLAIN = (nn.GELU, nn.SiLU, nn.Mish, nn.Hardswish, nn.ReLU, nn.ReLU6, nn.SELU, nn.Sigmoid, nn.Tanh)


def is_elementwise(value: Value) -> bool:
    return value.function is not None


def inside(value: Value, stop: Value | None = None) -> tuple[set[Value], set[Value]]:
    """The steps of the formula that ends in ``value``, and the tensors that it begins with.

    What a module with hooks gives is no step of a formula: only the module itself can be replaced.
    """
    steps, leaves, stack = set(), set(), [value]
    while stack:
        v = stack.pop()
        if v in steps or (v.op == "const" and not v.live):
            continue
        if is_elementwise(v) and v is not stop and not v.hooked:
            steps.add(v)
            stack += v.args
        else:
            leaves.add(v)
    return steps, leaves


def compute(value: Value, known: dict[Value, Any]) -> Any:
    """What the formula gives where its leaves are as ``known``."""
    if value.op == "const":
        return value.data
    if value not in known:
        parts = [compute(v, known) for v in value.args]
        parts = [p.clone() if isinstance(p, Tensor) else p for p in parts]  # some write into them
        count = len(parts) - len(value.keys)
        assert value.function is not None
        known[value] = value.function(
            *parts[:count], **dict(zip(value.keys, parts[count:], strict=True))
        )
    return known[value]


def values_of(value: Value, leaf: Value, x: Tensor) -> Tensor | None:
    with contextlib.suppress(Exception), torch.no_grad():  # whatever it makes of float64
        y = compute(value, {leaf: x.clone()})
        if isinstance(y, Tensor) and y.shape == x.shape:
            return y.double()
    return None


def identify(value: Value) -> tuple[Value, Activation] | None:
    """The tensor of which ``value`` is a known activation, and which."""
    if not is_elementwise(value):
        return None
    if isinstance(value.activation, Activation):
        return value.args[0], value.activation
    steps, leaves = inside(value)
    if len(steps) > LONGEST:
        return None
    for leaf in sorted((steps | leaves) - {value}, key=lambda v: -v.time):
        if inside(value, leaf)[1] == {leaf} and has_data(leaf):
            y = values_of(value, leaf, GRID)
            found = None if y is None else name_function(y)
            if found is not None and not _only_scales(value, leaf):
                return leaf, found
    return None


def _only_scales(value: Value, leaf: Value) -> bool:
    """``value`` adds no more than a factor of 1 or a term of 0 to an activation of ``leaf``."""
    parts = [a for a in value.args if a.op != "const"]
    if value.data not in ("add", "sub", "mul", "div", "neg", "to") or len(parts) != 1:
        return False
    found = identify(parts[0])
    return found is not None and found[0] is leaf


def is_part(value: Value, whole: Mapping[Value, Value]) -> bool:
    """An activation whose value goes, with its own input, into a product or a function unknown.

    ``whole`` gives for each step of a formula that is known its result. A sum leaves an activation
    what it is, and so do factors that are numbers or parameters.
    """
    own = _data_leaves(value)
    stack, seen = [value], set()
    while stack:
        v = stack.pop()
        for user in v.uses():
            if not is_elementwise(user) or user in seen or _data_leaves(user) != own:
                continue
            seen.add(user)
            others = [a for a in user.args if a is not v and has_data(a)]
            if user in whole:
                stack.append(whole[user])
            elif isinstance(user.activation, Activation) or user.data in (
                "add",
                "sub",
                "neg",
                "to",
            ):
                stack.append(user)
            elif user.data in ("mul", "div") and not others and user.args.count(v) == 1:
                if user.data == "mul" or user.args[0] is v:
                    stack.append(user)
                else:
                    return True
            elif user.data not in COMPARISONS:
                return True
    return False


def _data_leaves(value: Value) -> set[Value]:
    return {v for v in inside(value)[1] if has_data(v)}


def name_function(y: Tensor) -> Activation | None:
    """The activation that has the values ``y`` on the grid."""
    if not bool(y.isfinite().all()):
        return None
    for kind, values in _candidates(y):
        close = CLOSE_GELU if kind.module is nn.GELU else CLOSE
        exact = kind.function(GRID, **values)
        if bool(((y - exact).abs() <= close * (1 + exact.abs())).all()):
            name = "relu²" if kind is SQUARED_RELU else kind.module.__name__
            unit = NAMES.get(kind.function, kind.function.__name__)
            return make_activation(kind, values, f"{name} by hand", attr=unit)
    return None


def _candidates(y: Tensor) -> list[tuple[Kind, dict[str, Any]]]:
    one, minus, zero, low = (float(y[(GRID - x).abs().argmin()]) for x in (1, -1, 0, -50))
    found: list[tuple[Kind, dict[str, Any]]] = [
        (k, dict(k.defaults)) for k in KINDS if k.module in PLAIN
    ]
    found += [(MODULES[nn.GELU], {"approximate": "tanh"}), (SQUARED_RELU, {})]
    beta = 0.0
    if 0 < one < 1:  # x sigmoid(beta x)
        beta = math.log(one / (1 - one))
    if beta > LINEAR:
        found.append((SWISH, {"beta": round(beta, 9)}))
    if zero > 0:  # log(1 + exp(beta x)) / beta
        beta = round(math.log(2) / zero, 9)
        found.append((MODULES[nn.Softplus], {"beta": beta, "threshold": 20.0}))
    slope = round(-minus, 9)
    if 0 < slope < 1 - LINEAR:
        found.append((MODULES[nn.LeakyReLU], {"negative_slope": slope}))
    if low < 0:
        found.append((MODULES[nn.ELU], {"alpha": round(-low, 9)}))
    return found


def formula_of(value: Value, leaf: Value) -> Callable[[Any], Any]:
    """``value`` as a function of ``leaf``."""
    return lambda x: compute(value, {leaf: x})
