"""Models and arguments that cannot be pruned, refused before anything is done."""

import copy
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from padenet.torch.pruning.functions import tensors_in
from padenet.torch.pruning.layers import CONVOLUTIONS
from padenet.torch.pruning.record import Pruning, percent
from padenet.torch.pruning.spread import Spread
from padenet.torch.pruning.surgery import plain_names

RECORD = "pruning"  # the attribute of a pruned model that holds its pruning


def check_model(model: nn.Module) -> None:
    if not isinstance(model, nn.Module):
        raise TypeError(f"a model is needed, not {type(model).__name__}.")
    compiled = any(hasattr(m, "_orig_mod") for m in model.modules())
    if compiled or isinstance(model, torch.jit.ScriptModule):
        raise TypeError(
            f"{type(model).__name__} or a part of it is scripted or compiled. Prune the model "
            "first, then script or compile it."
        )
    if not convolutions(model):
        raise ValueError(
            f"{type(model).__name__} has no convolutions, and prune removes their filters alone."
        )
    if hasattr(model, RECORD) and not isinstance(getattr(model, RECORD), Pruning):
        raise ValueError(
            f"{type(model).__name__} has a {RECORD!r} of its own, and a pruned model keeps its "
            "pruning under that name. Give it another name."
        )


def check_values(model: nn.Module) -> None:
    """Refuse weights without numbers, of which none is the weakest."""
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if tensor.is_meta:
            raise ValueError(
                f"{name} is on the meta device, where it has no numbers. Load the weights first; "
                "apply_pruning needs none."
            )


def copy_model(model: nn.Module) -> nn.Module:
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if is_lazy(tensor):
            raise ValueError(
                f"{name} is lazy and has no shape yet. Run the model once: model(example)."
            )
    for name, module in model.named_modules():
        for key, value in vars(module).items():
            if isinstance(value, Tensor) and not value.is_leaf:
                raise ValueError(
                    f"{f'{name}.{key}'.lstrip('.')} is a tensor that autograd follows, so that the "
                    "model cannot be copied. Set it to None, or let forward keep x.detach()."
                )
    return copy.deepcopy(model)


def check_whole(model: nn.Module) -> None:
    """Refuse a model of which filters have gone, or a part of it."""
    for name, module in model.named_modules():
        done = vars(module).get(RECORD)
        if isinstance(done, Pruning) or isinstance(module, Spread):
            by = f" by {percent(done.fraction)} %" if isinstance(done, Pruning) else ""
            what = f"{name} in the model" if name and by else "the model"
            raise ValueError(
                f"{what} is pruned already{by}. Prune the whole model, or pruned = "
                f"model{f'.get_submodule({name!r})' if name and by else ''} alone with "
                f"after=pruned.{RECORD}: fraction counts the filters of the whole."
            )


def check_after(model: nn.Module, after: Pruning, fraction: float) -> None:
    if not isinstance(after, Pruning):
        raise TypeError(f"after={after!r} must be a Pruning, e.g. model.{RECORD}.")
    found = convolutions(model)
    for name, kept in after.filters.items():
        if name not in found or found[name].out_channels != len(kept.places):
            has = f"has {found[name].out_channels} filters" if name in found else "is not there"
            raise ValueError(
                f"after is not the pruning of this model: {name} {has}, and should have "
                f"{len(kept.places)}. Pass model.{RECORD}."
            )
    if not fraction > after.fraction:
        raise ValueError(
            f"fraction={percent(fraction)} is not above the {percent(after.fraction)} % that are "
            "gone already: it counts the filters of the whole model."
        )


def check_pruning(pruning: Pruning) -> None:
    if not isinstance(pruning, Pruning):
        raise TypeError(
            f"pruning={pruning!r} must be a Pruning. From a file: padenet.Pruning.load(path)."
        )


def check_example(example: Tensor | tuple[Any, ...]) -> None:
    if not isinstance(example, (Tensor, tuple)):
        raise TypeError(
            f"example is a {type(example).__name__}. Give a tensor, or a tuple of the model's "
            "arguments, e.g. example=torch.randn(2, 3, 32, 32)."
        )
    first = next(tensors_in(example), None)
    if first is None or not first.numel():
        what = "holds no tensor" if first is None else f"is empty, of shape {tuple(first.shape)}"
        raise ValueError(f"example {what}. Give input of the model: two images are enough.")


def check_skip(skip: str | Iterable[str]) -> list[str]:
    """``skip`` as a list of patterns."""
    patterns = [skip] if isinstance(skip, str) else skip
    listed = list(patterns) if isinstance(patterns, Iterable) else [patterns]
    if not all(isinstance(p, str) for p in listed):
        raise TypeError(
            f"skip={skip!r} must be patterns of names of convolutions, e.g. skip=['layer4.*']."
        )
    return listed


def convolutions(model: nn.Module) -> dict[str, Any]:
    """By their names in the whole model."""
    plain = plain_names(model)
    return {plain[n]: m for n, m in model.named_modules() if isinstance(m, CONVOLUTIONS)}
