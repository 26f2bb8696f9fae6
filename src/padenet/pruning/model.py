"""``prune``: a copy of a model without its weakest filters."""

import copy
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn

from padenet.pruning.channels import Lanes
from padenet.pruning.choice import Layer, check_criterion, choose, find_layers
from padenet.pruning.flow import Flow, Stays, follow
from padenet.pruning.layers import CONVOLUTIONS
from padenet.pruning.record import Cut, Kept, Left, Pruning, check_fraction
from padenet.pruning.spread import Spread
from padenet.pruning.surgery import compose_cuts, make_checked_cuts, make_cuts, plain_names


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
    units a channel, and the weights that read them. The output is that of ``model`` with each
    removed channel set to zero after its activation. Make a new optimiser for the copy.

    A depthwise convolution shares its mask with the one that feeds it, their scores added up, and
    so do the channels of which Maxout takes one. Before a sum, as at the end of a residual block,
    the filters go too, and zeros take their places: the sum keeps its width.

    Args:
        model: Left as it is. Any forward will do: a copy is run to see what reads what.
        fraction: Percent between 0 and 100 of the filters of the whole model: of C filters
            floor(fraction · C / 100) go, but never all. Masks for greater fractions contain those
            for smaller ones.
        example: Input of the model, or a tuple of its arguments; two images are enough.
        criterion: "l1", the sum of a filter's absolute weights, or "sum", that of its weights.
        skip: Patterns of names of convolutions that keep their filters, e.g. "layer4.*".
        after: For a model that is pruned already: its pruning, ``model.pruning``. What is gone
            counts towards ``fraction``, and the new pruning is of the whole model again.

    Returns:
        The pruned model, with the pruning as its attribute ``pruning``, and that pruning.
    """
    share, score = check_fraction(fraction), check_criterion(criterion)
    _check_model(model, after)
    if after is not None and not fraction > after.fraction:
        raise ValueError(
            f"fraction={fraction:g} is not above the {after.fraction:g} % that are gone already: "
            "it counts the filters of the whole model."
        )
    model, example = copy.deepcopy(model), copy.deepcopy(example)
    all_names = list(_convolutions(model))
    flow, layers = _follow(model, example, [skip] if isinstance(skip, str) else list(skip))
    plain = plain_names(model)
    gone = {n: after.filters[p] for n, p in plain.items() if p in after.filters} if after else {}
    goes = set[int]()
    for layer in layers:
        goes |= choose(layer, flow, model, share, score, gone)
    cuts = {name: cut for name in flow.calls if (cut := _cut(name, flow, goes)) != Cut()}
    before, size = make_checked_cuts(model, cuts, example)
    filters = dict(after.filters) if after else {}
    for name in (n for layer in layers for n in layer.names):
        kept = _kept(flow, flow.calls[name].outputs, goes)
        filters[plain[name]] = gone[name].then(kept) if name in gone else kept
    stays = {plain[n]: why for n, (why, _) in flow.stays.items()}
    pruning = Pruning(
        fraction=fraction,
        criterion=criterion,
        filters=filters,
        cuts=compose_cuts(after.cuts, cuts, plain) if after else cuts,
        left=tuple(Left(n, stays.get(n, "not called")) for n in all_names if n not in filters),
        before=after.before if after else before,
        after=size,
    )
    model.pruning = pruning  # type: ignore[assignment]
    return model, pruning


def apply_pruning(model: nn.Module, pruning: Pruning) -> nn.Module:
    """A copy of ``model``, built like the one that ``pruning`` was made from, without its filters.

    The weights that stay are those of ``model``, to the bit: with new weights this rewinds a
    pruned net, and a state dict of a pruned model fits the copy.
    """
    _check_model(model, None)
    model = copy.deepcopy(model)
    names = dict(model.named_modules())
    for name in pruning.cuts:
        if name not in names:
            raise ValueError(
                f"the pruning cuts {name!r}, which {type(model).__name__} does not have. "
                "Apply it to a model built like the one it was made from."
            )
    make_cuts(model, pruning.cuts)
    model.pruning = pruning  # type: ignore[assignment]
    return model


def _check_model(model: nn.Module, after: Pruning | None) -> None:
    if not isinstance(model, nn.Module):
        raise TypeError(f"a model is needed, not {type(model).__name__}.")
    if hasattr(model, "_orig_mod") or isinstance(model, torch.jit.ScriptModule):
        raise TypeError(
            f"{type(model).__name__} is scripted or compiled. Prune the model first, then script "
            "or compile it."
        )
    if not _convolutions(model):
        raise ValueError(
            f"{type(model).__name__} has no convolutions, and prune removes their filters alone."
        )
    done = getattr(model, "pruning", None)
    spread = any(isinstance(m, Spread) for m in model.modules())
    if after is None and (isinstance(done, Pruning) or spread):
        by = f" by {done.fraction:g} %" if isinstance(done, Pruning) else ""
        raise ValueError(
            f"the model is pruned already{by}. Prune the whole model, or pass "
            "after=model.pruning to go on from here: fraction counts the filters of the whole."
        )
    if after is not None:
        for name, kept in after.filters.items():
            found = _convolutions(model).get(name)
            if found is None or found.out_channels != len(kept.places):
                has = "is not there" if found is None else f"has {found.out_channels} filters"
                raise ValueError(
                    f"after is not the pruning of this model: {name} {has}, and should have "
                    f"{len(kept.places)}. Pass model.pruning."
                )


def _convolutions(model: nn.Module) -> dict[str, Any]:
    plain = plain_names(model)
    return {plain[n]: m for n, m in model.named_modules() if isinstance(m, CONVOLUTIONS)}


def _follow(model: nn.Module, example: Any, skip: list[str]) -> tuple[Flow, list[Layer]]:
    """The flow, and what can be pruned in it; raises where something else should be."""
    stays: dict[str, Stays] = {}
    plain = plain_names(model)
    names = {n: plain[n] for n, m in model.named_modules() if isinstance(m, CONVOLUTIONS)}
    for pattern in skip:
        patterns = (pattern, f"{pattern}.*")
        hits = [n for n, p in names.items() if any(fnmatchcase(p, each) for each in patterns)]
        if not hits:
            there = ", ".join(names.values())
            raise ValueError(f"skip={pattern!r} fits no convolution. There are: {there}.")
        stays |= dict.fromkeys(hits, Stays("skipped", True))
    while True:
        flow = follow(model, example, stays)
        count, layers = len(stays), find_layers(flow)
        if len(stays) == count:
            _refuse(flow, bool(layers))
            return flow, layers


def _refuse(flow: Flow, any_layer: bool) -> None:
    wrong = {name: why for name, (why, fine) in flow.stays.items() if not fine}
    if wrong:
        listed = "; ".join(f"{name}: {why}" for name, why in list(wrong.items())[:4])
        more = f"; and {len(wrong) - 4} more" if len(wrong) > 4 else ""
        raise ValueError(
            f"these convolutions cannot be pruned: {listed}{more}. "
            f"To leave them as they are: skip={list(wrong)}."
        )
    if not any_layer:
        whys = "; ".join(f"{name}: {why}" for name, (why, _) in list(flow.stays.items())[:4])
        raise ValueError(f"no convolution is left to prune. {whys or 'The model calls none'}.")


def _kept(flow: Flow, lanes: Lanes, goes: set[int]) -> Kept:
    heads = flow.filters.heads(lanes).tolist()
    return Kept(tuple(i for i, h in enumerate(heads) if h not in goes), len(heads))


def _cut(name: str, flow: Flow, goes: set[int]) -> Cut:
    call = flow.calls[name]
    parts = [_kept(flow, lanes, goes) for lanes in (call.inputs, call.outputs)]
    inputs, outputs = (k if len(k.places) < k.of else None for k in parts)
    spreads = name in flow.spreads and outputs is not None
    return Cut(inputs if call.reads else None, outputs, spreads)
