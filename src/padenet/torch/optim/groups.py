"""The parameter groups of a model with units, for the optimisers of torch."""

from typing import Any

from torch import nn

from padenet.torch.nn import PAU
from padenet.torch.registry import find_activations


def param_groups(
    model: nn.Module,
    *,
    lr: float,
    weight_decay: float = 0.0,
    coefficient_lr: float | None = None,
    matrices: bool = False,
) -> list[dict[str, Any]]:
    """Groups for an optimiser, in which weights decay and activations do not.

    Decay pulls a unit towards the zero function, so the coefficients have none. Whatever their
    shape: filters that look for ``ndim <= 1`` decay the ``(groups, m + 1)`` tables.

    With ``padenet.stabilize`` the coefficients need no rate of their own: it measures each of their
    steps by what it does to the function.

    Args:
        model: Its parameters that require gradients are taken, each once.
        lr: Learning rate.
        weight_decay: That of the weights.
        coefficient_lr: Learning rate of the units' coefficients, ``lr`` unless given.
        matrices: Whether the two-dimensional weights are a group of their own, for an optimiser
            that takes nothing else, such as Muon. The tables of coefficients are never among them.

    Returns:
        Groups by their ``"name"``: "weights", "coefficients" (of Padé units) and, where there are
        any, "activations" (the parameters of others in ``padenet.torch.registry``, such as
        PReLU). With ``matrices`` the first is "matrices" and "weights" holds what is left.
    """
    activations = find_activations(model).values()
    own = {id(p) for m in activations if isinstance(m, PAU) for p in m.parameters()}
    others = {id(p) for m in activations for p in m.parameters()} - own
    trained = [p for p in model.parameters() if p.requires_grad]
    weights = [p for p in trained if id(p) not in own | others]
    rate = lr if coefficient_lr is None else coefficient_lr
    groups = [
        _group("weights", [p for p in weights if not (matrices and p.ndim == 2)], lr, weight_decay),
        _group("coefficients", [p for p in trained if id(p) in own], rate, 0.0),
    ]
    if matrices:
        flat = [p for p in weights if p.ndim == 2]
        groups.insert(0, _group("matrices", flat, lr, weight_decay))
    rest = [p for p in trained if id(p) in others]
    return groups + ([_group("activations", rest, lr, 0.0)] if rest else [])


def _group(name: str, params: list[nn.Parameter], lr: float, decay: float) -> dict[str, Any]:
    return {"name": name, "params": params, "lr": lr, "weight_decay": decay}
