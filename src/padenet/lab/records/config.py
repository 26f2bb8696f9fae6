"""What a training run is: one frozen record. Recipes are functions that return records."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from padenet.core import AIMS, FORMS, find_start, unknown
from padenet.lab.records.fields import (
    ABOVE_0,
    COUNT,
    FROM_0,
    Name,
    Only,
    Range,
    fields_of,
    option,
)

OptimizerName = Literal["adam", "adamw", "muon", "rmsprop", "sgd"]
AugmentationName = Literal["none", "crop-flip", "rotate"]
Precision = Literal["fp32", "tf32", "bf16"]
UNITS = ("pau", "rpau")
FORMER_AIM = "near"  # of all starts, when records did not say
LONGEST_NAME = 255  # bytes, on the usual file systems

OF_UNITS = Only("activation", UNITS)
NAME = Name("._+-")
LABEL = Name("._+", may_be_empty=True)


@dataclass(frozen=True, kw_only=True)
class Config:
    """All that decides the numbers of a run. Where it runs, and how fast, is not part of it.

    A field is stated here and nowhere else: a flag of the command line, the check of a record and
    the table of settings in reports follow from it.
    """

    dataset: str = option("digits", "digits (default), mnist, …: padenet data list", NAME)
    net: str = option(
        "lenet",
        "lenet (default), vgg, vgg8, mobilenetv2, resnet101, densenet121, mobilenetv2-imagenet",
        NAME,
    )
    activation: str = option(
        "pau", "relu, lrelu, swish, …, pau (default), rpau: docs/networks.md lists them", NAME
    )
    seed: int = option(
        0, "of weights, order and noise", Range(lambda v: 0 <= v < 2**63, "0 or more, below 2^63")
    )
    label: str = option("", "tells apart runs that differ in other fields; part of the name", LABEL)

    epochs: int = option(20, "number of epochs", COUNT)
    batch_size: int = option(64, "of all processes together", COUNT)
    augment: AugmentationName = option("none", "none, crop-flip or rotate")
    precision: Precision = option("fp32", "fp32, tf32 (GPU) or bf16")

    optimizer: OptimizerName = option("adam", "adam, adamw, muon, rmsprop or sgd")
    lr: float = option(0.002, "learning rate", ABOVE_0)
    momentum: float = option(
        0.0,
        "of sgd",
        Range(lambda v: 0 <= v < 1, "in [0, 1), such as 0.9"),
        only=Only("optimizer", ("sgd",)),
    )
    weight_decay: float = option(0.0, "of weights; parameters of activations have none", FROM_0)
    lr_decay: float = option(
        1.0,
        "factor on lr every LR_EVERY epochs",
        Range(ABOVE_0.fits, f"{ABOVE_0.words}: a factor, 1 for a constant rate"),
    )
    lr_every: int = option(1, "epochs from one decay to the next", COUNT)
    clip_norm: float | None = option(
        None,
        "greatest norm of the gradient of all weights, or none",
        ABOVE_0.or_none("for no limit"),
    )

    start: str = option(
        "lrelu", "stored start of pau and rpau, e.g. lrelu, swish", find_start, only=OF_UNITS
    )
    aim: str | None = option(
        None,
        "which start of that name: wide, near or steady; none: its default",
        AIMS,
        only=OF_UNITS,
    )
    form: str = option("safe", f"of pau and rpau: {', '.join(FORMS)}", FORMS, only=OF_UNITS)
    alpha: float = option(
        0.01,
        "half width of the noise of rpau",
        Range(lambda v: 0 <= v <= 1, "in [0, 1]: 0.01 is noise of one percent"),
        only=Only("activation", ("rpau",)),
    )
    coefficient_lr: float | None = option(
        None,
        "constant rate of the coefficients; none: as lr",
        FROM_0.or_none("for the rate of the weights"),
        only=OF_UNITS,
    )
    coefficient_clip: float | None = option(
        None,
        "greatest norm of the gradient of each unit, or none",
        ABOVE_0.or_none("for no limit"),
        only=OF_UNITS,
    )
    stabilize: float | None = option(
        None,
        "how far a unit may move in a step, or none: docs/stability.md",
        ABOVE_0.or_none("for no limit"),
        only=OF_UNITS,
    )
    # Of old records: the guard that was before stabilize. It is read and cannot be trained.
    coefficient_floor: float | None = option(
        None, "", Range(lambda v: 0 < v < 1, "between 0 and 1, or None")
    )

    def __post_init__(self) -> None:
        for name, field in fields_of(Config).items():
            field.check(getattr(self, name))
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
        if values.get("activation") in UNITS:
            values = {"aim": FORMER_AIM, **values}
        for name in values:
            if name not in fields_of(cls):
                raise unknown("field of a run", name, fields_of(cls))
        return cls(**values)


def check_read(configs: Iterable[Config], given: dict[str, Any]) -> None:
    """Refuse a field that was given a value and that none of the runs reads."""
    configs = list(configs)
    for name, field in fields_of(Config).items():
        if field.only is None or given.get(name, field.default) == field.default:
            continue
        other, values = field.only
        if not any(getattr(c, other) in values for c in configs):
            raise ValueError(
                f"{name}={given[name]!r} has no effect: it is for {other} {' and '.join(values)}, "
                f"not {', '.join(sorted({getattr(c, other) for c in configs}))}. Leave it out."
            )
