"""The optimiser of a run: its groups and rates, and what it remembers."""

from typing import Any

import torch
from torch import nn

from padenet import param_groups
from padenet.experiments.config import Config


def make_optimizer(config: Config, net: nn.Module, device: torch.device) -> torch.optim.Optimizer:
    """With the groups of ``param_groups``. Coefficients that have their own rate keep it."""
    own = config.coefficient_lr
    decay = config.weight_decay
    groups = param_groups(net, lr=config.lr, weight_decay=decay, coefficient_lr=own)
    for i, group in enumerate(groups):
        group |= {"start": group["lr"], "decays": i != 1 or own is None}
    groups = _merge(groups)
    on_gpu = device.type == "cuda"
    for group in groups:
        group["lr"] = torch.tensor(group["start"], device=device) if on_gpu else group["start"]
    if config.optimizer == "adam":
        return torch.optim.Adam(groups, fused=True, capturable=on_gpu)
    return torch.optim.SGD(groups, momentum=config.momentum, fused=True)


def moments(config: Config) -> tuple[str, ...]:
    """What the optimiser remembers of each parameter, in a tensor of its shape."""
    if config.optimizer == "adam":
        return "exp_avg", "exp_avg_sq"
    return ("momentum_buffer",) if config.momentum else ()


def _merge(groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those with the same settings as one, since the optimiser works group by group; none empty."""
    merged: dict[tuple[Any, ...], dict[str, Any]] = {}
    for group in groups:
        settings = tuple(v for k, v in group.items() if k != "params")
        if settings in merged:
            merged[settings]["params"] += group["params"]
        elif group["params"]:
            merged[settings] = group
    return list(merged.values())
