"""What an optimiser needs to know of units: their own parameter groups, and a guard."""

from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from padenet.nn import PAU, starting_coefficients


def param_groups(
    model: nn.Module,
    *,
    lr: float,
    weight_decay: float = 0.0,
    coefficient_lr: float | None = None,
) -> list[dict[str, Any]]:
    """Two groups for an optimiser of torch's: the weights, then the units' coefficients.

    Decay pulls a unit towards the zero function, so the coefficients have none. Whatever their
    shape: filters that look for ``ndim <= 1`` decay the ``(groups, m + 1)`` tables.

    Args:
        model: Its parameters that require gradients are taken, each once.
        lr: Learning rate.
        weight_decay: That of the weights.
        coefficient_lr: Learning rate of the coefficients, ``lr`` unless given.
    """
    units = [m for m in model.modules() if isinstance(m, PAU)]
    own = {id(p) for unit in units for p in unit.parameters()}
    trained = [p for p in model.parameters() if p.requires_grad]
    rate = lr if coefficient_lr is None else coefficient_lr
    weights = [p for p in trained if id(p) not in own]
    coefficients = [p for p in trained if id(p) in own]
    return [
        {"params": weights, "lr": lr, "weight_decay": weight_decay},
        {"params": coefficients, "lr": rate, "weight_decay": 0.0},
    ]


def guard_growth(model: nn.Module, optimizer: Optimizer, *, floor: float = 0.1) -> RemovableHandle:
    """Keep the units of a model from blowing up: after every step b_n keeps its sign and size.

    ``safe`` excludes poles, not growth. While b_n keeps the sign of its start, a unit grows like
    x^(m - n). Once b_n passes 0, A(x) has a zero far out; Q is 1 there, and F as large as P: with
    b_4 = -0.004 the default unit reaches 5 million at x = 31. So b_n is held at ``floor`` times
    its start, or beyond. Units whose start has b_n = 0 are left alone. For starts with a small b_n,
    as those of smooth functions, this is little protection: give ``param_groups`` a lower
    ``coefficient_lr`` besides.

    Args:
        model: Its units, as they are now, are guarded.
        optimizer: The guard is a hook on its ``step``.
        floor: Part of the start's b_n, in (0, 1).

    Returns:
        A handle; ``remove()`` ends the guard.
    """
    if not 0 < floor < 1:
        raise ValueError(f"floor={floor} must be between 0 and 1: 0.1 keeps a tenth of the start.")
    guarded = []
    for unit in model.modules():
        if isinstance(unit, PAU) and unit.degrees[1]:
            start = starting_coefficients(unit.init, unit.degrees, unit.spec)[1][..., -1]
            least = torch.where(start > 0, floor * start, -torch.inf).to(unit.b)
            most = torch.where(start < 0, floor * start, torch.inf).to(unit.b)
            guarded.append((unit, least, most))

    @torch.no_grad()
    def hold(*_: Any) -> None:
        for unit, least, most in guarded:
            unit.b[..., -1].clamp_(least.to(unit.b), most.to(unit.b))

    return optimizer.register_step_post_hook(hold)
