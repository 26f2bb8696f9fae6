"""What a training run is: one frozen record. Recipes are functions that return records."""

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields
from types import NoneType
from typing import Any, Literal, get_args, get_type_hints

from padenet.core.aims import AIMS
from padenet.core.forms import FORMS
from padenet.core.names import unknown
from padenet.core.starts import find_start

Optimizer = Literal["adam", "adamw", "muon", "rmsprop", "sgd"]
Augmentation = Literal["none", "crop-flip", "rotate"]
Precision = Literal["fp32", "tf32", "bf16"]
UNITS = ("pau", "rpau")
FORMER_AIM = "near"  # of all starts, when records did not say
LONGEST_NAME = 255  # bytes, on the usual file systems
READ_BY = {  # fields that only some runs read: those with such a value of another field
    "momentum": ("optimizer", ("sgd",)),
    "alpha": ("activation", ("rpau",)),
    **dict.fromkeys(
        ("start", "aim", "form", "coefficient_lr", "coefficient_clip", "stabilize"),
        ("activation", UNITS),
    ),
}


@dataclass(frozen=True, kw_only=True)
class Config:
    """All that decides the numbers of a run. Where it runs, and how fast, is not part of it."""

    dataset: str = "digits"
    net: str = "lenet"
    activation: str = "pau"
    seed: int = 0
    label: str = ""  # tells apart runs that differ in what follows; part of the run's name

    epochs: int = 20
    batch_size: int = 64  # of all processes together; a last, smaller batch is dropped
    augment: Augmentation = "none"
    precision: Precision = "fp32"

    optimizer: Optimizer = "adam"
    lr: float = 0.002
    momentum: float = 0.0  # of sgd
    weight_decay: float = 0.0  # of weights; the parameters of activations have none
    lr_decay: float = 1.0  # factor on lr every lr_every epochs
    lr_every: int = 1
    clip_norm: float | None = None  # of the gradient of all weights

    start: str = "lrelu"  # of pau and rpau, as all that follows
    aim: str | None = None  # which start of that name; None: its default
    form: str = "safe"
    alpha: float = 0.01  # of rpau
    coefficient_lr: float | None = None  # constant; None: lr, decay included
    coefficient_clip: float | None = None  # of the gradient norm of each unit
    stabilize: float | None = None  # how far a unit may move in a step; None: anywhere
    coefficient_floor: float | None = None  # of old records: the guard that was before stabilize

    def __post_init__(self) -> None:
        for field in fields(self):
            check(field.name, getattr(self, field.name))
        if (length := len(self.name.encode())) > LONGEST_NAME:
            raise ValueError(
                f"label={self.label!r} makes the run's name {length} bytes long, and a directory's "
                f"has at most {LONGEST_NAME}. Use a shorter one."
            )

    @property
    def name(self) -> str:
        """Names the run and its directory; no two runs of a sweep share it."""
        parts = [self.dataset, self.net, self.activation, self.label, f"s{self.seed}"]
        return "-".join(p for p in parts if p)

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Config":
        known = [f.name for f in fields(cls)]
        if values.get("activation") in UNITS:
            values = {"aim": FORMER_AIM, **values}
        for name in values:
            if name not in known:
                raise unknown("field of a run", name, known)
        return cls(**values)


def check_read(configs: Iterable[Config], given: dict[str, Any]) -> None:
    """Refuse a field that was given a value and that none of the runs reads."""
    configs = list(configs)
    defaults = {f.name: f.default for f in fields(Config)}
    for name in given.keys() & READ_BY.keys():
        other, values = READ_BY[name]
        if given[name] != defaults[name] and not any(getattr(c, other) in values for c in configs):
            raise ValueError(
                f"{name}={given[name]!r} has no effect: it is for {other} {' and '.join(values)}, "
                f"not {', '.join(sorted({getattr(c, other) for c in configs}))}. Leave it out."
            )


HINTS = get_type_hints(Config)
INFINITY = float("inf")  # excluded by every range, as is nan
ABOVE_0 = (lambda v: 0 < v < INFINITY, "a finite number above 0")
ABOVE_0_OR_NONE = (ABOVE_0[0], f"{ABOVE_0[1]}, or None for no limit")
FROM_0 = (lambda v: 0 <= v < INFINITY, "a finite number, 0 or more")
COUNT = (lambda v: v >= 1, "at least 1")

RANGES: dict[str, tuple[Callable[[float], bool], str]] = {
    "seed": (lambda v: 0 <= v < 2**63, "0 or more, below 2^63"),
    "epochs": COUNT,
    "batch_size": COUNT,
    "lr": ABOVE_0,
    "momentum": (lambda v: 0 <= v < 1, "in [0, 1), such as 0.9"),
    "weight_decay": FROM_0,
    "lr_decay": (ABOVE_0[0], f"{ABOVE_0[1]}: a factor, 1 for a constant rate"),
    "lr_every": COUNT,
    "clip_norm": ABOVE_0_OR_NONE,
    "alpha": (lambda v: 0 <= v <= 1, "in [0, 1]: 0.01 is noise of one percent"),
    "coefficient_lr": (FROM_0[0], f"{FROM_0[1]}, or None for the rate of the weights"),
    "coefficient_clip": ABOVE_0_OR_NONE,
    "stabilize": ABOVE_0_OR_NONE,
    "coefficient_floor": (lambda v: 0 < v < 1, "between 0 and 1, or None"),
}
SIGNS = {"label": "._+", "dataset": "._+-", "net": "._+-", "activation": "._+-"}


def check(name: str, value: Any) -> None:
    """Refuse a value that its field cannot have."""
    hint = HINTS[name]
    choices = [c for c in get_args(hint) if isinstance(c, str)]
    if name in RANGES:
        _check_number(name, value, hint)
    elif name == "aim":
        if value is not None and (not isinstance(value, str) or value not in AIMS):
            raise unknown("aim", value, AIMS)
    elif not isinstance(value, str):
        raise ValueError(f"{name}={value!r} must be a text.")
    elif choices and value not in choices:
        raise unknown(name, value, choices)
    elif name == "start":
        find_start(value)
    elif name == "form" and value not in FORMS:
        raise unknown("form", value, FORMS)
    elif name in SIGNS:  # they name directories
        if not value and name != "label":
            raise ValueError(f"{name}={value!r} must not be empty: it is part of the run's name.")
        if not all(c.isalnum() or c in SIGNS[name] for c in value):
            signs = " ".join(SIGNS[name])
            raise ValueError(f"{name}={value!r} may hold letters, digits and {signs} only.")


def _check_number(name: str, value: Any, hint: Any) -> None:
    if value is None and NoneType in get_args(hint):
        return
    if isinstance(value, bool) or not isinstance(value, int if hint is int else (int, float)):
        kind = "whole number" if hint is int else "number"
        raise ValueError(f"{name}={value!r} must be a {kind}.")
    fits, words = RANGES[name]
    if not fits(value):
        raise ValueError(f"{name}={value} must be {words}.")
