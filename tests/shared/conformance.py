"""``conformance/cases.json`` read, and answers held to it. What a case is: its README."""

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from padenet.core.forms import Spec

FILE = Path(__file__).parents[2] / "conformance" / "cases.json"
NAMES = ("y", "dx", "da", "db")


class Limits(NamedTuple):
    eps: float
    smallest: float
    largest: float


LIMITS = {
    "float64": Limits(2.0**-52, 2.0**-1074, (2 - 2.0**-52) * 2.0**1023),
    "float32": Limits(2.0**-23, 2.0**-149, (2 - 2.0**-23) * 2.0**127),
    "bfloat16": Limits(2.0**-7, 2.0**-133, (2 - 2.0**-7) * 2.0**127),
    "float16": Limits(2.0**-10, 2.0**-24, 65504.0),
}


class Case(NamedTuple):
    name: str
    spec: Spec
    key: int | None
    dtypes: list[str]
    x: np.ndarray
    a: np.ndarray
    b: np.ndarray
    dy: np.ndarray
    answers: dict[str, np.ndarray]
    errors: dict[str, dict[str, np.ndarray]]

    @property
    def degrees(self) -> tuple[int, int]:
        return self.spec.flags.degrees(self.a.shape[-1], self.b.shape[-1])

    def units(self):
        """The elements of each unit, as a mask, and its coefficients."""
        if self.a.ndim == 1:
            return [(np.ones(self.x.shape, bool), self.a, self.b)]
        dim = self.spec.channel_dim % self.x.ndim
        groups, channels = len(self.a), self.x.shape[dim]
        of_channel = np.arange(channels) * groups // channels
        of = np.broadcast_to(of_channel.reshape(-1, *[1] * (self.x.ndim - dim - 1)), self.x.shape)
        return [(of == g, a, b) for g, (a, b) in enumerate(zip(self.a, self.b, strict=True))]


def computed_in(dtype: str) -> str:
    return "float64" if dtype == "float64" else "float32"


@cache
def read() -> tuple[list[Case], list[dict[str, Any]]]:
    """The cases, and the noise by itself."""
    found = json.loads(FILE.read_text(encoding="utf-8"))
    return [_case(c) for c in found["cases"]], found["noise"]


def _case(c: dict[str, Any]) -> Case:
    shaped = lambda v: np.array(v, float).reshape(c["shape"])
    spec = Spec(c["form"], float(c["q"]), c["channel_dim"], c.get("alpha", 0.0))
    return Case(
        f"{c['form']}, {c['name']}",
        spec,
        int(c["key"]) if "key" in c else None,
        c["dtypes"],
        shaped(c["x"]),
        np.array(c["a"], float),
        np.array(c["b"], float),
        shaped(c["dy"]),
        {n: np.array(c[n], float) for n in NAMES},
        {d: {n: np.array(e[n], float) for n in NAMES} for d, e in c["error"].items()},
    )


def excess(got: np.ndarray, value: np.ndarray, error: np.ndarray, dtype: str) -> np.ndarray:
    """By how many times its bound each number is off, the rounding to ``dtype`` included.

    Infinity is right where the exact value may overflow, NaN where it is NaN, and nowhere else.
    """
    eps, smallest, largest = LIMITS[dtype]
    with np.errstate(all="ignore"):
        bound = error + (abs(value) + error) * (eps / 2) + smallest / 2
        off = abs(got - value) / np.maximum(bound, 2.0**-1074)
        overflows = np.sign(got) * value + error >= largest * (1 + eps / 4)
    off = np.where(np.isinf(got), np.where(overflows, 0.0, np.inf), off)
    off = np.where(np.isnan(got) | np.isnan(off), np.inf, off)
    return np.where((got == value) | np.isinf(error) | (np.isnan(got) & np.isnan(value)), 0.0, off)


def complaint(case: Case, dtype: str, name: str, got: Any, spare: Any = 0.0) -> str | None:
    """What is wrong with the worst of these numbers, or None. ``spare`` is allowed besides."""
    held_in = dtype if name in ("y", "dx") else computed_in(dtype)
    value = case.answers[name]
    with np.errstate(over="ignore"):
        error = case.errors[computed_in(dtype)][name] + np.broadcast_to(spare, value.shape)
    got = np.asarray(got, float)
    if got.size != value.size:
        return f"{case.name}, {dtype}: {name} has {got.size} numbers instead of {value.size}"
    off = excess(got.ravel(), value, error, held_in)
    if not off.size or off.max() <= 1:
        return None
    i = int(off.argmax())
    return (
        f"{case.name}, {dtype}: {name}[{i}] is {got.ravel()[i]!r}, should be {value[i]!r} "
        f"+- {error[i]:.2g}: off by {off[i]:.3g} times the bound"
    )
