"""What an optimiser needs to know of units: their own parameter groups, and a guard."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from padenet.nn import PAU, starting_coefficients
from padenet.registry import find_activations


def param_groups(
    model: nn.Module,
    *,
    lr: float,
    weight_decay: float = 0.0,
    coefficient_lr: float | None = None,
) -> list[dict[str, Any]]:
    """Groups for an optimiser of torch's, in which weights decay and activations do not.

    Decay pulls a unit towards the zero function, so the coefficients have none. Whatever their
    shape: filters that look for ``ndim <= 1`` decay the ``(groups, m + 1)`` tables.

    Args:
        model: Its parameters that require gradients are taken, each once.
        lr: Learning rate.
        weight_decay: That of the weights.
        coefficient_lr: Learning rate of the units' coefficients, ``lr`` unless given.

    Returns:
        The weights, the coefficients of Padé units and, if there are any, the parameters of other
        activations of ``padenet.registry.ACTIVATIONS``, such as PReLU.
    """
    activations = find_activations(model).values()
    own = {id(p) for m in activations if isinstance(m, PAU) for p in m.parameters()}
    others = {id(p) for m in activations for p in m.parameters()} - own
    trained = [p for p in model.parameters() if p.requires_grad]
    rate = lr if coefficient_lr is None else coefficient_lr
    weights = [p for p in trained if id(p) not in own | others]
    coefficients = [p for p in trained if id(p) in own]
    rest = [p for p in trained if id(p) in others]
    groups = [
        {"params": weights, "lr": lr, "weight_decay": weight_decay},
        {"params": coefficients, "lr": rate, "weight_decay": 0.0},
    ]
    return groups + ([{"params": rest, "lr": lr, "weight_decay": 0.0}] if rest else [])


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
    if not any(isinstance(m, PAU) for m in model.modules()):
        raise ValueError(
            "model has no unit to guard. Call padenet.convert first, or leave this out."
        )
    least: list[tuple[PAU, Tensor]] = []
    most: list[tuple[PAU, Tensor]] = []
    for unit in model.modules():
        if isinstance(unit, PAU) and unit.degrees[1]:
            start = starting_coefficients(unit.init, unit.degrees, unit.spec, unit.aim)[1][..., -1]
            if (start > 0).any():
                least.append((unit, torch.where(start > 0, floor * start, -torch.inf).to(unit.b)))
            if (start < 0).any():
                most.append((unit, torch.where(start < 0, floor * start, torch.inf).to(unit.b)))

    @torch.no_grad()
    def hold(*_: Any) -> None:
        # All units in one kernel: DenseNet-121 has as many units as its name says.
        for bounds, apply in ((least, torch._foreach_maximum_), (most, torch._foreach_minimum_)):
            if bounds:
                apply([u.b[..., -1] for u, _ in bounds], [bound.to(u.b) for u, bound in bounds])

    return optimizer.register_step_post_hook(hold)
