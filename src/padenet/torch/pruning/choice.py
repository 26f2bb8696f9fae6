"""Filters that live and die together, and the weakest of them."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, lcm

import numpy as np
import torch
from torch import Tensor, nn

from padenet.core.support.names import unknown
from padenet.torch.pruning.channels import STAYS, Lanes, Stays
from padenet.torch.pruning.flow import Flow
from padenet.torch.pruning.record import Kept, percent

CRITERIA: dict[str, Callable[[Tensor], Tensor]] = {
    "l1": lambda w: w.abs().sum(1),  # sum of |w|
    "sum": lambda w: w.sum(1),  # signed, as the paper's text has it
}


@dataclass
class Layer:
    """Convolutions with one mask: for most just one.

    Args:
        heads: The numbers of its filters, or of those that stand for merged ones.
        parts: So many equal parts lose as many filters each.
    """

    names: list[str]
    heads: Lanes
    parts: int = 1


def check_criterion(name: str) -> Callable[[Tensor], Tensor]:
    if not isinstance(name, str) or name not in CRITERIA:
        raise unknown("criterion", name, CRITERIA)
    return CRITERIA[name]


def find_layers(flow: Flow) -> list[Layer]:
    """Convolutions whose filters are merged are one layer; what is divided evenly is noted.

    Those of a unit with groups that cannot be divided are added to the flow's ``stays``.
    """
    found: dict[str, Layer] = {}
    for name, call in flow.calls.items():
        if name not in flow.filters.owners or name in flow.stays:
            continue
        heads = np.unique(flow.filters.heads(call.outputs))
        for owner in flow.filters.owners_of(heads):
            own = [h for h in heads.tolist() if flow.filters.owners[h] == owner]
            layer = found.setdefault(owner, Layer([], np.empty(0, np.int64)))
            layer.names.append(name)
            layer.heads = np.union1d(layer.heads, own)
    layers = list(found.values())
    for unit, lanes, groups in flow.even:
        heads = flow.filters.heads(lanes)
        if (heads == STAYS).all():
            continue
        for layer in layers:
            parts = lcm(layer.parts, groups)
            if np.array_equal(layer.heads, heads) and len(heads) % parts == 0:
                layer.parts = parts
                break
        else:
            owners = flow.filters.owners_of(lanes)
            for name in owners:
                why = f"{unit} has {groups} groups, which would not stay equally wide"
                flow.stays[name] = Stays(why, False)
    return [layer for layer in layers if not flow.stays.keys() & set(layer.names)]


def choose(
    layer: Layer,
    flow: Flow,
    model: nn.Module,
    share: Fraction,
    score: Callable[[Tensor], Tensor],
    whole: dict[str, Kept],
) -> set[int]:
    """The filters to go, by number: those with the lowest scores, added up where merged.

    Args:
        share: Of the whole model's filters in each part, floor(share · count) go.
        whole: What stays of the whole model's filters so far, where some have gone before.
    """
    scores = dict.fromkeys(layer.heads.tolist(), 0.0)
    for name in layer.names:
        weight = model.get_submodule(name).get_parameter("weight").detach()
        precise = torch.complex128 if weight.is_complex() else torch.float64
        values = score(weight.to(precise).flatten(1)).cpu()
        if values.is_complex():
            raise ValueError(f"{name} has complex weights, whose sums have no order: use 'l1'.")
        if not torch.isfinite(values).all():
            raise ValueError(f"{name} has weights that are not finite, so none is the weakest.")
        heads = flow.filters.heads(flow.calls[name].outputs)
        for head, value in zip(heads.tolist(), values.tolist(), strict=True):
            if head in scores:
                scores[head] += value
    count, gone = count_part(layer, flow, whole)
    wanted = int(share * count) - gone  # never all, for a share below 1
    goes: set[int] = set()
    for part in np.split(layer.heads, layer.parts):
        ranked = sorted(part.tolist(), key=lambda head: scores[head])
        goes.update(ranked[: max(0, wanted)])
    return goes


def count_part(layer: Layer, flow: Flow, whole: dict[str, Kept]) -> tuple[int, int]:
    """Filters in each of its parts in the whole model, and how many of them have gone before."""
    first, now = layer.names[0], len(layer.heads) // layer.parts
    here = len(flow.calls[first].outputs)
    count = now * (whole[first].of if first in whole else here) // here
    return count, count - now


def check_any(
    goes: set[int], fraction: float, layers: list[Layer], flow: Flow, whole: dict[str, Kept]
) -> None:
    """Refuse a fraction by which nothing goes, with the smallest by which something does."""
    if goes:
        return
    counts = [count_part(layer, flow, whole) for layer in layers]
    shares = [Fraction(gone + 1, count) for count, gone in counts if gone + 1 < count]
    if not shares:
        raise ValueError("no filter can go: each convolution has one, or some that count as one.")
    smallest = ceil(min(shares) * 10_000) / 100
    raise ValueError(
        f"fraction={percent(fraction)} removes no {'further ' if whole else ''}filter: it is in "
        f"percent of those of each convolution. The smallest that does is {percent(smallest)}."
    )
