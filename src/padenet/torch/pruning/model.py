"""``prune``: a copy of a model without its weakest filters."""

import copy
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn

from padenet.torch.pruning.channels import Lanes, Stays
from padenet.torch.pruning.checks import (
    check_after,
    check_example,
    check_model,
    check_pruning,
    check_skip,
    check_values,
    check_whole,
    convolutions,
    copy_model,
)
from padenet.torch.pruning.choice import Layer, check_any, check_criterion, choose, find_layers
from padenet.torch.pruning.flow import Flow, follow
from padenet.torch.pruning.layers import CONVOLUTIONS, may_have_channels
from padenet.torch.pruning.record import Cut, Kept, Left, Pruning, check_fraction
from padenet.torch.pruning.surgery import compose_cuts, make_checked_cuts, make_cuts, plain_names


@torch.inference_mode(False)  # the copy can be trained wherever it was made
def prune(
    model: nn.Module,
    fraction: float,
    *,
    example: Tensor | tuple[Any, ...],
    criterion: str = "l1",
    skip: str | Iterable[str] = (),
    after: Pruning | None = None,
) -> tuple[nn.Module, Pruning]:
    """A copy of ``model`` without the weakest ``fraction`` percent of filters of each convolution.

    The filters are gone, with all that belongs to them: their part of batch normalisation, of
    units per channel, and the weights that read them. The output is that of ``model`` with each
    removed channel set to zero after its activation. Make a new optimiser for the copy.

    A depthwise convolution shares its mask with the one that feeds it, their scores added up, and
    so do the channels of which Maxout takes one. Before a sum, as at the end of a residual block,
    the filters go too, and zeros take their places: the sum keeps its width.

    Args:
        model: Not changed. Any forward will do: a copy is run to see what reads what.
        fraction: Percent between 0 and 100 of the filters of the whole model: of C filters
            floor(fraction · C / 100) go, but never all, and one at least in some layer. Masks for
            greater fractions contain those for smaller ones.
        example: Input of the model, or a tuple of its arguments; two images are enough. Only what
            the model does with it in evaluation is followed.
        criterion: "l1", the sum of a filter's absolute weights, or "sum", that of its weights.
        skip: Patterns of names of convolutions that keep their filters, e.g. "layer4.*", and of
            layers that are not called.
        after: For a model that is pruned already: its pruning, ``model.pruning``. What is gone
            counts towards ``fraction``, and the new pruning is of the whole model again.

    Returns:
        The pruned model, with the pruning as its attribute ``pruning``, and that pruning.
    """
    share, score = check_fraction(fraction), check_criterion(criterion)
    check_model(model)
    if after is None:
        check_whole(model)
    else:
        check_after(model, after, fraction)
    check_example(example)
    patterns = check_skip(skip)
    check_values(model)
    model, example = copy_model(model), copy.deepcopy(example)
    all_names = list(convolutions(model))
    flow, layers = _follow(model, example, patterns)
    plain = plain_names(model)
    gone = {n: after.filters[p] for n, p in plain.items() if p in after.filters} if after else {}
    goes = set[int]()
    for layer in layers:
        goes |= choose(layer, flow, model, share, score, gone)
    check_any(goes, fraction, layers, flow, gone)
    cuts = {name: cut for name in flow.calls if (cut := _cut(name, flow, goes)) != Cut()}
    before, size = make_checked_cuts(model, cuts, example)
    filters = dict(after.filters) if after else {}
    for name in (n for layer in layers for n in layer.names):
        kept = _kept(flow, flow.calls[name].outputs, goes)
        filters[plain[name]] = gone[name].then(kept) if name in gone else kept
    stays = {plain[n]: why for n, (why, _) in flow.stays.items()}
    earlier = after.steps if after else ()
    steps = (*earlier, float(fraction)) if earlier or not after else ()
    pruning = Pruning(
        fraction=float(fraction),
        criterion=criterion,
        filters=filters,
        cuts=compose_cuts(after.cuts, cuts, plain) if after else cuts,
        left=tuple(Left(n, stays.get(n, "not called")) for n in all_names if n not in filters),
        before=after.before if after else before,
        after=size,
        steps=steps,
    )
    model.pruning = pruning  # type: ignore[assignment]
    return model, pruning


@torch.inference_mode(False)
def apply_pruning(model: nn.Module, pruning: Pruning) -> nn.Module:
    """A copy of ``model``, built like the one that ``pruning`` was made from, without its filters.

    The weights that stay are those of ``model``, to the bit: with new weights this rewinds a
    pruned net, and a state dict of a pruned model fits the copy.
    """
    check_model(model)
    check_whole(model)
    check_pruning(pruning)
    names = dict(model.named_modules())
    for name in pruning.cuts:
        if name not in names:
            raise ValueError(
                f"the pruning cuts {name!r}, which {type(model).__name__} does not have. "
                "Apply it to a model built like the one it was made from."
            )
    model = copy_model(model)
    make_cuts(model, pruning.cuts)
    model.pruning = pruning  # type: ignore[assignment]
    return model


def _follow(model: nn.Module, example: Any, skip: list[str]) -> tuple[Flow, list[Layer]]:
    """The flow, and what can be pruned in it; raises where something else should be."""
    plain = plain_names(model)
    names = {n: plain[n] for n, m in model.named_modules() if isinstance(m, CONVOLUTIONS)}
    stays = {n: Stays("skipped", True) for n, p in names.items() if _fits(p, skip)}
    while True:
        flow = follow(model, example, stays)
        count, layers = len(stays), find_layers(flow)
        if len(stays) == count:
            break
    uncalled = [plain[n] for n in _find_uncalled(flow)]
    for pattern in skip:
        if not any(_fits(name, [pattern]) for name in (*names.values(), *uncalled)):
            there = ", ".join(names.values())
            raise ValueError(f"skip={pattern!r} fits no convolution. There are: {there}.")
    _refuse(flow, bool(layers))
    _refuse_uncalled([name for name in uncalled if not _fits(name, skip)])
    return flow, layers


def _fits(name: str, patterns: list[str]) -> bool:
    return any(fnmatchcase(name, p) or fnmatchcase(name, f"{p}.*") for p in patterns)


def _find_uncalled(flow: Flow) -> list[str]:
    """Layers whose parameters may be those of channels, and nothing has used them."""
    return [
        name
        for name, module in flow.model.named_modules()
        if may_have_channels(module) and name not in flow.times
        if not flow.used.intersection(module.parameters(recurse=False))
    ]


def _refuse_uncalled(names: list[str]) -> None:
    if names:
        raise ValueError(
            "these layers have parameters, and the model does not call them for the example in "
            f"evaluation: {', '.join(n or 'the model itself' for n in names)}. They would not be "
            "cut to fit what they read. Remove them, or give an example that calls them. If they "
            f"read nothing that is pruned: skip={names}."
        )


def _refuse(flow: Flow, any_layer: bool) -> None:
    wrong = {name: why for name, (why, fine) in flow.stays.items() if not fine}
    if wrong:
        listed = _listed(wrong)
        more = f"; and {len(wrong) - 4} more" if len(wrong) > 4 else ""
        raise ValueError(
            f"these convolutions cannot be pruned: {listed}{more}. "
            f"To leave them as they are: skip={list(wrong)}."
        )
    if not any_layer:
        whys = _listed({name: why for name, (why, _) in flow.stays.items()})
        raise ValueError(f"no convolution is left to prune. {whys or 'The model calls none'}.")


def _listed(whys: dict[str, str]) -> str:
    """The first of them; a model that is a convolution has no name."""
    return "; ".join(f"{n or 'the model itself'}: {why}" for n, why in list(whys.items())[:4])


def _kept(flow: Flow, lanes: Lanes, goes: set[int]) -> Kept:
    heads = flow.filters.heads(lanes).tolist()
    return Kept(tuple(i for i, h in enumerate(heads) if h not in goes), len(heads))


def _cut(name: str, flow: Flow, goes: set[int]) -> Cut:
    call = flow.calls[name]
    parts = [_kept(flow, lanes, goes) for lanes in (call.inputs, call.outputs)]
    inputs, outputs = (k if len(k.places) < k.of else None for k in parts)
    return Cut(inputs if call.reads else None, outputs, outputs if name in flow.spreads else None)
