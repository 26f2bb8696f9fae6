"""What a pruning is: which filters stay, as data that can be saved and applied."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from padenet.core.support.files import replacing


class Kept(NamedTuple):
    """The places that stay, of so many."""

    places: tuple[int, ...]
    of: int

    def then(self, later: "Kept") -> "Kept":
        """What stays of the whole if ``later`` is kept of this."""
        return Kept(tuple(self.places[i] for i in later.places), self.of)


class Cut(NamedTuple):
    """What stays of the inputs and outputs of a layer; None is all of them.

    ``spread``: the places at which its outputs are put after it, zeros at the others. They may be
    of fewer than ``outputs`` are of, where what they are added to has lost channels before.
    """

    inputs: Kept | None = None
    outputs: Kept | None = None
    spread: Kept | None = None

    def then(self, later: "Cut") -> "Cut":
        return Cut(*(a.then(b) if a and b else a or b for a, b in zip(self, later, strict=True)))


class Left(NamedTuple):
    """A convolution that keeps all its filters."""

    name: str
    why: str


class Size(NamedTuple):
    """``multiplications`` are those of one image in convolutions and linear layers."""

    parameters: int
    multiplications: int


@dataclass(frozen=True)
class Pruning:
    """Which filters of a model stay; ``print`` it for a table.

    Args:
        fraction: Percent of the filters of the whole model that were to go.
        criterion: How they were chosen.
        filters: Name of a convolution → its filters that stay.
        cuts: Name of a layer → what stays of it, for ``apply_pruning``.
        left: Convolutions that keep all their filters, and why.
        before, after: Size of the whole model and of the pruned one.
        costs: What was measured of the pruned model, by name, e.g. times.
        steps: The fractions that went one after the other, the last of them ``fraction``; empty
            where that is not known.
    """

    fraction: float
    criterion: str
    filters: dict[str, Kept]
    cuts: dict[str, Cut]
    left: tuple[Left, ...]
    before: Size
    after: Size
    costs: dict[str, float] = field(default_factory=dict)
    steps: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        check_fraction(self.fraction)
        for name, filters in self.filters.items():
            _check_kept(name, "filters", filters)
        for name, cut in self.cuts.items():
            for what, kept in cut._asdict().items():
                if kept is not None:
                    _check_kept(name, what, kept)
            if cut.spread and not (
                cut.outputs and len(cut.outputs.places) == len(cut.spread.places)
            ):
                raise ValueError(f"{name}: the pruning spreads other outputs than it keeps.")

    def summary(self) -> dict[str, Any]:
        """The numbers alone, without names of layers and places."""
        kept = [(len(k.places), k.of) for k in self.filters.values()]
        return {
            "fraction": self.fraction,
            "criterion": self.criterion,
            "filters": sum(n for n, _ in kept),
            "whole_filters": sum(n for _, n in kept),
            **self.after._asdict(),
            **{f"whole_{name}": value for name, value in self.before._asdict().items()},
            **self.costs,
        }

    def save(self, path: str | Path) -> None:
        with replacing(path) as temporary:
            temporary.write_text(self.to_json() + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> "Pruning":
        try:
            return cls.from_json(Path(path).read_text(encoding="utf-8"))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f"{path} does not hold a pruning ({error!r}). Put back a copy, or save it again: "
                "model.pruning.save(path). A stage of padenet prune is made anew if its directory "
                "is deleted."
            ) from error

    def to_json(self) -> str:
        def kept(value: Kept | None) -> Any:
            return value and {"of": value.of, "places": list(value.places)}

        return json.dumps(
            {
                "fraction": self.fraction,
                "criterion": self.criterion,
                "steps": list(self.steps),
                "before": self.before._asdict(),
                "after": self.after._asdict(),
                "costs": self.costs,
                "left": [left._asdict() for left in self.left],
                "filters": {name: kept(k) for name, k in self.filters.items()},
                "cuts": {
                    name: {
                        "inputs": kept(c.inputs),
                        "outputs": kept(c.outputs),
                        "spread": kept(c.spread),
                    }
                    for name, c in self.cuts.items()
                },
            }
        )

    @classmethod
    def from_json(cls, text: str) -> "Pruning":
        def kept(value: Any) -> Kept:
            return Kept(tuple(value["places"]), value["of"])

        def cut(value: Any) -> Cut:
            inputs, outputs = (value[k] and kept(value[k]) for k in ("inputs", "outputs"))
            spread = value["spread"]  # true stands for the places of the outputs
            return Cut(
                inputs, outputs, outputs if spread is True else kept(spread) if spread else None
            )

        values = json.loads(text)
        return cls(
            fraction=values["fraction"],
            criterion=values["criterion"],
            filters={n: kept(k) for n, k in values["filters"].items()},
            cuts={n: cut(c) for n, c in values["cuts"].items()},
            left=tuple(Left(**left) for left in values["left"]),
            before=Size(**values["before"]),
            after=Size(**values["after"]),
            costs=values["costs"],
            steps=tuple(values.get("steps", ())),
        )

    def __str__(self) -> str:
        rows = [("convolution", "filters", "stay")]
        rows += [(name, str(k.of), str(len(k.places))) for name, k in self.filters.items()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            f"{percent(self.fraction)} % of the filters of {len(self.filters)} convolutions: "
            f"{_change(self.before, self.after, 0)} parameters, "
            f"{_change(self.before, self.after, 1)} multiplications"
        ]
        for name, *numbers in rows:
            cells = [n.rjust(w) for n, w in zip(numbers, widths[1:], strict=True)]
            lines.append(f"  {name.ljust(widths[0])}  {'  '.join(cells)}")
        lines += [f"  left: {name}: {why}" for name, why in self.left]
        return "\n".join(lines)


def _check_kept(name: str, what: str, kept: Kept) -> None:
    places, of = kept
    known = places and all(type(i) is int for i in (*places, of))
    if not (known and list(places) == sorted({*places}) and 0 <= places[0] <= places[-1] < of):
        raise ValueError(
            f"{name}: the pruning keeps the {what} {list(places)} of {of}, which must be rising "
            "numbers below that."
        )


def _change(before: Sequence[int], after: Sequence[int], i: int) -> str:
    return f"{before[i]:,} → {after[i]:,}"


def check_fraction(fraction: float) -> Fraction:
    """``fraction`` in percent as an exact number, so that 30 % of 10 filters are 3."""
    number = isinstance(fraction, Real) and not isinstance(fraction, bool)
    if not number or not 0 < fraction < 100:
        raise ValueError(
            f"fraction={fraction!r} must be a percentage between 0 and 100, e.g. 30 for 30 %."
        )
    return Fraction(str(fraction)) / 100


def percent(fraction: float) -> str:
    """With all its digits, so that a difference shows."""
    return repr(float(fraction)).removesuffix(".0")


def measure_size(model: nn.Module, example: Tensor | tuple[Any, ...]) -> Size:
    """Parameters, and multiplications of one image: ``example`` is a batch of them."""
    return run_measured(model, example)[0]


def run_measured(model: nn.Module, example: Tensor | tuple[Any, ...]) -> tuple[Size, Any]:
    """The size and the output in evaluation."""
    total = 0

    def count(layer: nn.Module, args: Any, kwargs: Any, output: Tensor) -> None:
        nonlocal total
        weight: Any = layer.weight
        x = args[0] if args else kwargs["input"]
        spots = x if isinstance(layer, transposed) else output  # each meets weight[0]
        total += spots[0].numel() * weight[0].numel()

    transposed = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
    kinds = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear, *transposed)
    layers = [m for m in model.modules() if isinstance(m, kinds)]
    hooks = [m.register_forward_hook(count, with_kwargs=True) for m in layers]
    try:
        output = run_once(model, example)
    finally:
        for hook in hooks:
            hook.remove()
    return Size(sum(p.numel() for p in model.parameters()), total), output


def run_once(model: nn.Module, example: Tensor | tuple[Any, ...]) -> Any:
    """The output in evaluation, without gradients; each module keeps its mode."""
    modes = [(m, m.training) for m in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            return model(*(example if isinstance(example, tuple) else (example,)))
    finally:
        for module, mode in modes:
            module.training = mode
