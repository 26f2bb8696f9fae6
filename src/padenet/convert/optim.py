"""Parameter groups: coefficients apart from weights."""

from typing import Any

from torch import nn

from padenet.nn import PAU


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
