"""Whether a smaller model gives what the whole one gives with masks, to rounding."""

import copy
from typing import Any

import torch
from torch import Tensor, nn

from padenet.torch.pruning.functions import leaves_in, tensors_in
from padenet.torch.pruning.record import Size, run_measured

PLAIN = (type(None), bool, int, float, complex, str, torch.dtype, torch.device)


def run_in_double(model: nn.Module, example: Any) -> tuple[nn.Module, Any, Size, Any]:
    """A copy of ``model`` in float64, where rounding hides little; its input, size and output.

    A model that cannot run in float64 keeps its dtypes.
    """
    given = example if isinstance(example, tuple) else (example,)
    try:
        judge = copy.deepcopy(model).double()
        inputs = tuple(_doubled(x) for x in given)
        return judge, inputs, *run_measured(judge, inputs)
    except Exception:  # whatever a forward may raise for a dtype it was not written for
        judge = copy.deepcopy(model)
        return judge, given, *run_measured(judge, given)


def check_output(model: nn.Module, output: Any) -> None:
    """Raise an error for an output that cannot be compared."""
    strange = {type(x).__name__ for x in leaves_in(output) if not isinstance(x, (Tensor, *PLAIN))}
    floats = [x for x in _floats(output) if x.numel()]
    if strange or not floats:
        what = "is or holds a " + ", ".join(sorted(strange)) if strange else "holds no floats"
        raise TypeError(
            f"the output of {type(model).__name__} {what}, so that it cannot be compared with what "
            "masks give. Let forward return tensors of floats, or tuples, lists, dicts or "
            "dataclasses of them."
        )
    if not any(x.isfinite().any() for x in floats):
        raise ValueError(
            f"the output of {type(model).__name__} for the example is NaN or infinite everywhere, "
            "so that it cannot be compared with what masks give. Look for such weights, statistics "
            "or input."
        )


def agree(output: Any, expected: Any, whole: Any) -> bool:
    """Whether ``output`` is ``expected``, what masks make of ``whole``.

    Allowed is a small part of what the masks change, so that a large number in which filters have
    no part hides nothing, and for sums in another order a smaller one of the number itself:
    √eps · max|expected − whole| + eps^¾ · max|expected|.
    """
    return all(map(_close, _floats(output), _floats(expected), _floats(whole)))


def shapes(output: Any) -> list[torch.Size]:
    return [x.shape for x in tensors_in(output)]


def _floats(output: Any) -> list[Tensor]:
    parts = (torch.view_as_real(x) if x.is_complex() else x for x in tensors_in(output))
    return [x for x in parts if x.is_floating_point()]


def _close(output: Tensor, expected: Tensor, whole: Tensor) -> bool:
    eps = torch.finfo(output.dtype).eps
    allowed = eps**0.5 * _largest(expected - whole) + eps**0.75 * _largest(expected)
    return torch.allclose(output, expected, rtol=0, atol=allowed, equal_nan=True)


def _largest(x: Tensor) -> float:
    known = x[x.isfinite()].abs()
    return known.max().item() if known.numel() else 0.0


def _doubled(x: Any) -> Any:
    return x.double() if isinstance(x, Tensor) and x.is_floating_point() else x
