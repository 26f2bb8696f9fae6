"""The optimisers of a run: their groups and rates, and what they remember."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from padenet import param_groups
from padenet.lab.records.config import Config

MUON_REST = 0.1  # rate of what Muon does not take, under AdamW, as a part of the matrices'
Groups = list[dict[str, Any]]


def make_optimizers(config: Config, net: nn.Module, device: torch.device) -> list[Optimizer]:
    """With the groups of ``param_groups``. Coefficients that have their own rate keep it.

    One optimiser; for "muon" two: Muon for the matrices, and AdamW for the rest.
    """
    own, kind = config.coefficient_lr, config.optimizer
    groups = param_groups(
        net,
        lr=config.lr,
        weight_decay=config.weight_decay,
        coefficient_lr=own,
        matrices=kind == "muon",
    )
    for group in groups:
        name = group.pop("name")
        group["decays"] = name != "coefficients" or own is None
        group["matrices"] = name == "matrices"
        if kind == "muon" and name != "matrices" and group["decays"]:
            group["lr"] *= MUON_REST
        group["start"] = group["lr"]
    groups = _merge(groups)
    on_gpu = device.type == "cuda"
    if kind == "muon":
        matrices = [g for g in groups if g["matrices"]]
        rest = _on_device([g for g in groups if not g["matrices"]], device)
        adamw = torch.optim.AdamW(rest, fused=True, capturable=on_gpu)
        return [_muon(matrices), adamw] if matrices else [adamw]
    groups = _on_device(groups, device)
    if kind == "sgd":
        return [torch.optim.SGD(groups, momentum=config.momentum, fused=True)]
    if kind == "rmsprop":
        return [torch.optim.RMSprop(groups, capturable=on_gpu)]
    adam = torch.optim.AdamW if kind == "adamw" else torch.optim.Adam
    return [adam(groups, fused=True, capturable=on_gpu)]


def moments(optimizer: Optimizer) -> tuple[str, ...]:
    """What the optimiser remembers of each parameter, in a tensor of its shape."""
    if isinstance(optimizer, torch.optim.SGD):
        return ("momentum_buffer",) if optimizer.defaults["momentum"] else ()
    if isinstance(optimizer, torch.optim.RMSprop):
        return ("square_avg",)
    if isinstance(optimizer, torch.optim.Adam):
        return "exp_avg", "exp_avg_sq"
    return ("momentum_buffer",)  # Muon


def state_of(optimizers: Sequence[Optimizer]) -> dict[int, dict[str, Any]]:
    """What they remember, by the number of the parameter, counted through all of them."""
    found: dict[int, dict[str, Any]] = {}
    first = 0
    for optimizer in optimizers:
        state = optimizer.state_dict()["state"]
        found |= {first + i: values for i, values in state.items()}
        first += _count(optimizer)
    return found


def load_state(optimizers: Sequence[Optimizer], state: dict[int, dict[str, Any]]) -> None:
    first = 0
    for optimizer in optimizers:
        count = _count(optimizer)
        own = {i - first: v for i, v in state.items() if first <= i < first + count}
        optimizer.load_state_dict({**optimizer.state_dict(), "state": own})
        first += count


def _count(optimizer: Optimizer) -> int:
    return sum(len(g["params"]) for g in optimizer.param_groups)


def _muon(groups: Groups) -> Optimizer:
    if not hasattr(torch.optim, "Muon"):
        raise ValueError(
            f"optimizer='muon' needs torch 2.9 or newer, this is {torch.__version__}. "
            "Update torch, or take another optimizer."
        )
    return torch.optim.Muon(groups)


def _on_device(groups: Groups, device: torch.device) -> Groups:
    """Their rates as tensors on a GPU, where a CUDA graph reads them."""
    if device.type == "cuda":
        for group in groups:
            group["lr"] = torch.tensor(group["lr"], device=device)
    return groups


def _merge(groups: Groups) -> Groups:
    """Those with the same settings as one, since the optimiser works group by group; none empty."""
    merged: dict[tuple[Any, ...], dict[str, Any]] = {}
    for group in groups:
        settings = tuple(v for k, v in group.items() if k != "params")
        if settings in merged:
            merged[settings]["params"] += group["params"]
        elif group["params"]:
            merged[settings] = group
    return list(merged.values())
