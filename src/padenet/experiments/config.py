"""What a training run is: one frozen record. Recipes are functions that return records."""

import json
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args, get_type_hints

from padenet.extras import unknown

Optimizer = Literal["adam", "sgd"]
Augmentation = Literal["none", "crop-flip", "rotate"]
Precision = Literal["fp32", "tf32", "bf16"]
UNITS = ("pau", "rpau")


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

    start: str = "lrelu"  # of pau and rpau, as form, alpha and what begins with "coefficient"
    form: str = "safe"
    alpha: float = 0.01  # of rpau
    coefficient_lr: float | None = None  # constant; None: lr, decay included
    coefficient_clip: float | None = None  # of the gradient norm of each unit
    coefficient_floor: float | None = None  # b_n keeps its sign and this part of its start

    def __post_init__(self) -> None:
        for field in fields(self):
            check(field.name, getattr(self, field.name))

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
        for name in values:
            if name not in known:
                raise unknown("field of a run", name, known)
        return cls(**values)


POSITIVE = ("epochs", "batch_size", "lr", "lr_decay", "lr_every", "clip_norm", "coefficient_clip")


def check(name: str, value: Any) -> None:
    """Refuse a value that its field cannot have."""
    hint = get_type_hints(Config)[name]
    choices = [c for c in get_args(hint) if isinstance(c, str)]
    if choices and value not in choices:
        raise unknown(name, value, choices)
    if name in POSITIVE and value is not None and not value > 0:
        raise ValueError(f"{name}={value} must be above 0.")
    if hint is int and not isinstance(value, int):
        raise ValueError(f"{name}={value!r} must be a whole number.")
    if name in ("momentum", "weight_decay", "coefficient_lr", "seed") and not (value or 0) >= 0:
        raise ValueError(f"{name}={value} must not be negative.")
    if name == "coefficient_floor" and value is not None and not 0 < value < 1:
        raise ValueError(f"{name}={value} must be between 0 and 1, a part of the start's b_n.")
    signs = {"label": "._+", "dataset": "._+-", "net": "._+-", "activation": "._+-"}.get(name)
    if signs and not all(c.isalnum() or c in signs for c in value):  # they name directories
        raise ValueError(f"{name}={value!r} may hold letters, digits and {' '.join(signs)} only.")
