"""Stored starts: coefficients of F = P / Q that approximate known functions.

`STARTS` maps a name to a `Start`, which carries what it approximates, the form of Q it was
made for, the interval, and the error there. Plain names are least squares fits to the `safe`
form; `paper_…` are the paper's printed columns. The file is made by `tools/make_starts.py`.
"""

import json
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np
import torch
from torch import Tensor

from padenet.extras import unknown


@dataclass(frozen=True)
class Start:
    """F(x) = P(x) / Q(x) with P = Σ a_j x^j; b[0] is b_1, and `form` says how b makes Q.

    `rms` and `max_error` are those of F - target over `interval`.
    """

    name: str
    target: str
    form: str
    degrees: tuple[int, int]
    interval: tuple[float, float]
    a: tuple[float, ...]
    b: tuple[float, ...]
    rms: float
    max_error: float
    how: str
    note: str = ""

    def __post_init__(self) -> None:
        if self.degrees != (len(self.a) - 1, len(self.b)):
            raise ValueError(
                f"start {self.name!r} has degrees {self.degrees}, but {len(self.a)} "
                f"coefficients a and {len(self.b)} coefficients b"
            )


def _load() -> dict[str, Start]:
    text = resources.files(__package__).joinpath("starts.json").read_text(encoding="utf-8")
    starts: dict[str, Start] = {}
    for record in json.loads(text):
        values: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in record.items()
        }
        starts[record["name"]] = Start(**values)
    return starts


STARTS = _load()
ALIASES = {"celu": "elu", "silu": "swish"}


def find_start(name: str) -> Start:
    """The stored start of that name or alias."""
    start = STARTS.get(ALIASES.get(name, name))
    if start is not None:
        return start
    raise unknown("start", name, [*STARTS, *ALIASES])


def read_pair(pair: Any, name: str, others: str) -> tuple[Tensor, Tensor]:
    """``a`` and ``b`` of a pair of tensors, arrays or sequences, in float64 on the CPU.

    Args:
        name: Of the argument that holds it, for the error.
        others: What else the argument may be.
    """
    try:
        a, b = pair
    except (TypeError, ValueError):
        raise TypeError(
            f"{name}={pair!r} is neither the name of a start nor a pair (a, b), {others}."
        ) from None
    # An array is copied: torch takes none with negative strides, as polynomials turned round have.
    a, b = (c.copy() if isinstance(c, np.ndarray) else c for c in (a, b))
    try:
        a, b = (torch.as_tensor(c, dtype=torch.float64, device="cpu").detach() for c in (a, b))
    except (TypeError, ValueError) as e:
        raise TypeError(f"{name}={pair!r}: a and b must be numbers ({e}).") from None
    return a, b
