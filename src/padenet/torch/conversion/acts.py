"""Units by name in the configurations of transformers: ``hidden_act="pau"``."""

import functools
from collections.abc import Callable
from importlib import import_module
from typing import Any

from torch import nn

from padenet.torch.nn import PAU

_registered: set[str] = set()


def register_act2fn(
    name: str = "pau", init: Any = "gelu", *, unit: Callable[..., nn.Module] = PAU, **options: Any
) -> None:
    """Make ``name`` an activation that the configurations of ``transformers`` know.

        padenet.register_act2fn("pau", "gelu")
        model = BertModel(BertConfig(hidden_act="pau"))

    Every place in a model gets a unit of its own. The name belongs to the running program: a model
    saved with it needs the same call before it is loaded. Units that a checkpoint does not hold,
    as in ``from_pretrained(..., hidden_act="pau")``, begin at their start.

    Args:
        name: What the configuration will say. One of transformers' own is an error.
        init: Start of the units; see ``PAU``.
        unit: ``PAU``, ``RPAU``, or what takes their arguments.
        options: Passed to every unit, e.g. ``degrees``.
    """
    try:
        table = import_module("transformers.activations").ACT2FN
        model = import_module("transformers.modeling_utils").PreTrainedModel
    except ImportError as error:
        raise ImportError(
            f"transformers is needed for this and cannot be imported ({error}): "
            "pip install transformers."
        ) from error
    if name in table and name not in _registered:
        raise ValueError(f"transformers has an activation {name!r} of its own. Take another name.")
    options = {"init": init, **options}
    unit(**options)  # what is wrong with the options shows here, not in some model
    table[name] = (unit, options)
    _registered.add(name)
    _start_missing_units(model)


def _start_missing_units(model: Any) -> None:
    """Give units that a checkpoint lacks their start: transformers would leave them unset."""
    original = model._init_weights
    if getattr(original, "starts_units", False):
        return

    @functools.wraps(original)
    def init_weights(self: Any, module: nn.Module) -> None:
        if not isinstance(module, PAU):
            original(self, module)
        elif not all(getattr(p, "_is_hf_initialized", False) for p in module.parameters()):
            module.reset_parameters()

    init_weights.starts_units = True  # type: ignore[attr-defined]
    model._init_weights = init_weights
