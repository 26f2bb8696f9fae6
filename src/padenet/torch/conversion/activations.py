"""The activations that can be replaced, by module, function and method, and their starts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from padenet.core.starting.starts import STARTS, find_start
from padenet.torch.functional import rational

GRID = 6000


class Kind(NamedTuple):
    """An activation, as torch writes it: its function and the parameters that shape it."""

    module: type[nn.Module]
    function: Callable[..., Tensor]
    start: str | None = None  # stored, for the default parameters
    defaults: Mapping[str, Any] = {}
    spellings: tuple[Callable[..., Tensor], ...] = ()
    methods: tuple[str, ...] = ()


KINDS = [
    Kind(nn.ReLU, F.relu, "relu", {}, (F.relu_, torch.relu, torch.relu_), ("relu", "relu_")),
    Kind(nn.ReLU6, F.relu6, "relu6"),
    Kind(nn.LeakyReLU, F.leaky_relu, None, {"negative_slope": 0.01}, (F.leaky_relu_,)),
    Kind(nn.PReLU, F.prelu, None, {"weight": None}),
    Kind(
        nn.RReLU,
        F.rrelu,
        None,
        {"lower": 1 / 8, "upper": 1 / 3},
        (F.rrelu_, torch.rrelu, torch.rrelu_),
    ),
    Kind(nn.ELU, F.elu, "elu", {"alpha": 1.0}, (F.elu_,)),
    Kind(nn.CELU, F.celu, "elu", {"alpha": 1.0}, (F.celu_, torch.celu, torch.celu_)),
    Kind(nn.SELU, F.selu, "selu", {}, (F.selu_, torch.selu, torch.selu_)),
    Kind(nn.SiLU, F.silu, "swish"),
    Kind(nn.GELU, F.gelu, "gelu", {"approximate": "none"}),
    Kind(nn.Mish, F.mish, "mish"),
    Kind(nn.Hardswish, F.hardswish, "hardswish"),
    Kind(
        nn.Sigmoid,
        F.sigmoid,
        "sigmoid",
        {},
        (torch.sigmoid, torch.sigmoid_, torch.special.expit),
        ("sigmoid", "sigmoid_"),
    ),
    Kind(nn.Tanh, F.tanh, "tanh", {}, (torch.tanh, torch.tanh_), ("tanh", "tanh_")),
    Kind(nn.Softplus, F.softplus, "softplus", {"beta": 1.0, "threshold": 20.0}),
]
MODULES = {kind.module: kind for kind in KINDS}
FUNCTIONS = {f: kind for kind in KINDS for f in (kind.function, *kind.spellings)}
METHODS = {name: kind for kind in KINDS for name in kind.methods}
NAMES = {f.__name__ for f in FUNCTIONS} | set(METHODS)
TANH_SPELLINGS = ("GELU", "F.gelu")  # elsewhere the name says which GELU it is
BOUNDED = (nn.Sigmoid, nn.Tanh, nn.ReLU6)
WITHOUT_START = (
    nn.Hardtanh,
    nn.Hardsigmoid,
    nn.LogSigmoid,
    nn.Softsign,
    nn.Tanhshrink,
    nn.Softshrink,
    nn.Hardshrink,
    nn.Threshold,
)

HOOKS = (
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_backward_hooks",
    "_backward_pre_hooks",
    "_is_full_backward_hook",
)


@dataclass(frozen=True)
class Activation:
    """One place's: ``slopes`` for the leaky family, one or one per channel, else None."""

    kind: Kind
    values: Mapping[str, Any]
    spelling: str
    inplace: bool = False
    slopes: tuple[float, ...] | None = field(default=None)
    attr: str = ""

    @property
    def unit(self) -> str:
        """What to call a unit that takes the place of a call."""
        return self.attr or self.spelling.rpartition(".")[2].rstrip("_")

    @property
    def key(self) -> tuple[Any, ...]:
        if self.slopes is not None:
            return ("leaky", self.slopes)
        return (self.kind.module, self.kind.function, *sorted(self.values.items()))

    def __str__(self) -> str:
        if len(self.slopes or ()) > 1:
            return f"{self.spelling}({len(self.slopes or ())} slopes)"
        if self.kind.module is nn.PReLU and self.slopes:
            return f"{self.spelling}({self.slopes[0]:.4g})"
        given = [f"{v:.4g}" if isinstance(v, float) else str(v) for v in self.values.values()]
        usual = dict(self.values) == dict(self.kind.defaults)
        usual |= self.spelling not in TANH_SPELLINGS and "tanh" in self.values.values()
        return self.spelling if usual else f"{self.spelling}({', '.join(given)})"

    def __call__(self, x: Tensor) -> Tensor:
        """Its value, with one slope per channel for ``x`` of shape (N, channels)."""
        if self.slopes is not None:
            return torch.where(x > 0, x, x * x.new_tensor(self.slopes))
        return self.kind.function(x, **self.values)


def read_module(module: nn.Module) -> Activation | None:
    """The activation that ``module`` is, or None. Subclasses count if their forward is torch's."""
    for base in type(module).__mro__:
        kind = MODULES.get(base)
        if kind is None:
            continue
        if type(module).forward is not kind.module.forward or "forward" in vars(module):
            return None
        if not has_plain_call(module):
            return None
        values = {name: getattr(module, name) for name in kind.defaults}
        inplace = bool(getattr(module, "inplace", False))
        return make_activation(kind, values, kind.module.__name__, inplace)
    return None


def has_plain_call(module: nn.Module) -> bool:
    """To call it is to call its forward, with the hooks that are known."""
    return type(module).__call__ is nn.Module.__call__


def has_hooks(module: nn.Module) -> bool:
    return any(getattr(module, name, None) for name in HOOKS)


class Unknown(NamedTuple):
    """An argument that is known only when the model runs; ``tensor``: one of the forward's."""

    tensor: bool


def read_call(function: Any, args: Sequence[Any], given: Mapping[str, Any]) -> Activation | str:
    """The activation that a call of a known function or method is, or why it cannot be replaced."""
    if isinstance(function, str):
        kind, label = METHODS[function], f"Tensor.{function}"
    else:
        kind, label = FUNCTIONS[function], _name_of(function)
    if kind.module is nn.PReLU:
        return f"{label}: its slope is an argument; nn.PReLU is replaced"
    names = ["input", *kind.defaults]
    names += ["training", "inplace"] if kind.module is nn.RReLU else ["inplace"]
    given = {**dict(zip(names, args, strict=False)), **given}
    x = given.pop("input", None)
    if not isinstance(x, Unknown) or not x.tensor:
        return f"{label}: what it is called with is not a tensor of the forward"
    given.pop("training", None)
    flag = given.pop("inplace", False)
    if isinstance(flag, Unknown):
        return f"{label}: whether it is in place is computed in the forward"
    inplace = bool(flag) or label.endswith("_")
    values = {**kind.defaults, **given}
    if set(values) != set(kind.defaults):
        return f"{label}: it is called with {', '.join(set(values) - set(kind.defaults))}"
    if any(isinstance(v, Unknown) for v in values.values()):
        return f"{label}: its parameters are computed in the forward"
    return make_activation(kind, values, label, inplace)


def _name_of(function: Any) -> str:
    name = getattr(function, "__name__", str(function)).removeprefix("special_")
    home = torch if getattr(torch, name, None) is function else F
    return f"torch.{name}" if home is torch else f"F.{name}"


def make_activation(
    kind: Kind,
    values: Mapping[str, Any],
    spelling: str,
    inplace: bool = False,
    attr: str = "",
) -> Activation:
    slopes: tuple[float, ...] | None = None
    values = {k: float(v) if isinstance(v, int) else v for k, v in values.items()}
    if kind.module is nn.LeakyReLU:
        slopes = (values["negative_slope"],)
    elif kind.module is nn.RReLU:
        slopes = ((values["lower"] + values["upper"]) / 2,)
    elif kind.module is nn.PReLU:
        weight = values["weight"].detach()
        slopes = (0.25,) if weight.is_meta else tuple(weight.double().cpu().flatten().tolist())
        slopes = slopes[:1] if len(set(slopes)) == 1 else slopes
        values = {}
    return Activation(kind, values, spelling, inplace, slopes, attr)


class Beginning(NamedTuple):
    """What a unit starts with: ``init`` for PAU, what to call it, its rms error."""

    init: str | tuple[Tensor, Tensor]
    name: str
    rms: float


def find_beginning(
    activation: Activation, degrees: Any, form: str, q: float, aim: str | None = None
) -> Beginning:
    """A stored start; else, for a slope, a blend of stored ones; else a fit."""
    if aim is None and activation.kind.start:
        aim = find_start(activation.kind.start).aim
    usual = (tuple(degrees), form, q) == ((5, 4), "safe", 1.0)
    name = _stored(activation) if usual else None
    a: Any
    b: Any
    if name:
        start = find_start(name, aim)
        init: str | tuple[Tensor, Tensor] = name
        a, b = (torch.tensor(c, dtype=torch.float64) for c in (start.a, start.b))
        form = start.form
    else:
        slopes = activation.slopes
        if usual and slopes is not None and (min(slopes) >= 0 or len(slopes) > 1):
            pairs, how = [_blend(s, aim) for s in slopes], "lrelu"
        elif slopes is not None:
            fits = {s: _fit(_leaky(s), degrees, form, q, aim) for s in dict.fromkeys(slopes)}
            pairs, how = [fits[s] for s in slopes], "fitted lrelu"
        else:
            pairs, how = [_fit(activation, degrees, form, q, aim)], "fitted"
        a, b = (torch.stack(c) for c in zip(*pairs, strict=True))
        if len(pairs) == 1:
            a, b = a[0], b[0]
            name = how if slopes is None else f"{how} {slopes[0]:.4g}"
        else:
            name = f"{how}, one per channel"
        init = (a, b)
    x = (torch.arange(GRID, dtype=torch.float64) + 0.5) * (6 / GRID) - 3
    x = x[:, None].expand(-1, a.shape[0] if a.ndim == 2 else 1)
    error = rational(x, a, b, form=form, q=q) - activation(x)
    return Beginning(init, name, float(error.square().mean().sqrt()))


def _stored(activation: Activation) -> str | None:
    slopes, kind = activation.slopes, activation.kind
    if slopes is None:
        changed = {k for k, v in activation.values.items() if v != kind.defaults[k]}
        return kind.start if changed <= {"approximate"} else None
    names = {0.0: "relu", 0.01: "lrelu"}
    name = names.get(slopes[0], f"lrelu_{slopes[0]:.2f}".replace("-0.50", "-0.5"))
    return name if len(slopes) == 1 and name in STARTS and _slope_of(name) == slopes[0] else None


def _slope_of(name: str) -> float:
    return {"relu": 0.0, "lrelu": 0.01}.get(name) or float(name.partition("_")[2] or 0)


def _leaky(slope: float) -> Activation:
    return Activation(MODULES[nn.LeakyReLU], {}, "leaky", slopes=(slope,))


def _blend(slope: float, aim: str | None = None) -> tuple[Tensor, Tensor]:
    """slope · x + (1 - slope) · relu(x), over the denominator of the relu start.

    Its A = b_2 x² + b_4 x⁴ is nowhere negative, so x Q is a polynomial of degree 5. The error is
    |1 - slope| times that of relu, everywhere: the optimum of each aim too, for slopes from 0 to 1.
    """
    start = find_start("relu", aim)
    a, b = (torch.tensor(c, dtype=torch.float64) for c in (start.a, start.b))
    x_q = torch.cat([torch.tensor([0.0, 1.0], dtype=torch.float64), b])
    return slope * x_q + (1 - slope) * a, b


def _fit(
    activation: Activation, degrees: Any, form: str, q: float, aim: str | None
) -> tuple[Tensor, Tensor]:
    from padenet.core.fitting import fit

    def function(x: Any) -> Any:
        y = activation(torch.as_tensor(x, dtype=torch.float64))
        return y if isinstance(x, Tensor) else y.numpy()

    found = fit(function, tuple(degrees), form=form, q=q, aim=aim)
    a, b = (torch.as_tensor(c, dtype=torch.float64) for c in (found.a, found.b))
    return a, b
