"""Stored starts: coefficients of F = P / Q that approximate known functions.

`STARTS` maps a name to a `Start`, which carries what it approximates, the form of Q it was
made for, the interval, and the errors there and beyond. Plain names are least squares fits to the
`safe` form, one for each aim (`aims.py`), all in `STARTS_BY_AIM`; `paper_…` are the
paper's printed columns. The file is made by `tools/make_starts.py`.
"""

import json
from dataclasses import dataclass
from importlib import resources
from typing import Any, NamedTuple

import numpy as np

from padenet.core.arrays import floats
from padenet.core.support.names import unknown

DEFAULT_AIM = "wide"
KINKED = ("relu", "relu6", "lrelu", "lrelu_0.20", "lrelu_0.25", "lrelu_0.30", "selu")
DEFAULT_AIMS = dict.fromkeys((*KINKED, "hardswish", "sin"), "near") | {"lrelu_-0.5": "steady"}
"""Where "wide" costs too much. With a kink the error on [-3, 3] triples, and b_4, which is 0.3 by
itself and lets these starts train without help, falls to 0.007. No F of degrees (5, 4) follows
hardswish or sin far out. A zero of A at -96 keeps the near start of lrelu_-0.5 from training."""


class Errors(NamedTuple):
    """The greatest |F - target|: over [-10, 10], and of the two at ±6, ±10, ±20."""

    to_10: float
    at_6: float
    at_10: float
    at_20: float


@dataclass(frozen=True)
class Start:
    """F(x) = P(x) / Q(x) with P = Σ a_j x^j; b[0] is b_1, and `form` says how b makes Q.

    `rms` and `max_error` are those of F - target over `interval`, `errors` those beyond it.
    """

    name: str
    target: str
    aim: str
    form: str
    degrees: tuple[int, int]
    interval: tuple[float, float]
    a: tuple[float, ...]
    b: tuple[float, ...]
    rms: float
    max_error: float
    errors: Errors
    how: str
    note: str = ""

    def __post_init__(self) -> None:
        if self.degrees != (len(self.a) - 1, len(self.b)):
            raise ValueError(
                f"start {self.name!r} has degrees {self.degrees}, but {len(self.a)} "
                f"coefficients a and {len(self.b)} coefficients b"
            )


def _load() -> dict[str, dict[str, Start]]:
    text = resources.files(__package__).joinpath("starts.json").read_text(encoding="utf-8")
    starts: dict[str, dict[str, Start]] = {}
    for record in json.loads(text):
        values: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in record.items()
        }
        start = Start(**{**values, "errors": Errors(**record["errors"])})
        starts.setdefault(start.name, {})[start.aim] = start
    return starts


def _default(name: str, aims: dict[str, Start]) -> Start:
    return aims.get(DEFAULT_AIMS.get(name, DEFAULT_AIM)) or next(iter(aims.values()))


STARTS_BY_AIM = _load()
STARTS = {name: _default(name, aims) for name, aims in STARTS_BY_AIM.items()}
ALIASES = {"celu": "elu", "silu": "swish"}


def find_start(name: str, aim: str | None = None) -> Start:
    """The stored start of that name or alias, by default of the aim that suits it best."""
    known = ALIASES.get(name, name)
    if known not in STARTS:
        raise unknown("start", name, [*STARTS, *ALIASES])
    if aim is None:
        return STARTS[known]
    aims = STARTS_BY_AIM[known]
    if aim in aims:
        return aims[aim]
    if len(aims) == 1:
        start = STARTS[known]
        raise ValueError(
            f"start {name!r} has no aim {aim!r}, only {start.aim!r}. Leave aim out, or take the "
            f"start {start.target!r}."
        )
    raise unknown("aim", aim, aims)


def read_pair(pair: Any, name: str, others: str) -> tuple[np.ndarray, np.ndarray]:
    """``a`` and ``b`` of a pair of tensors, arrays or sequences, in float64.

    Args:
        name: Of the argument that holds it, for the error.
        others: What else the argument may be.
    """
    if hasattr(pair, "state_dict"):
        raise TypeError(
            f"{name} is a {type(pair).__name__}, a model and no unit. Name the unit in it: "
            "padenet.torch.seeing.finding.find_units(model) has them all."
        )
    try:
        a, b = pair
    except (TypeError, ValueError):
        raise TypeError(
            f"{name}={pair!r} is neither the name of a start nor a pair (a, b), {others}."
        ) from None
    try:
        a, b = floats(a), floats(b)
    except (TypeError, ValueError) as e:
        raise TypeError(f"{name}={pair!r}: a and b must be numbers ({e}).") from None
    return a, b
