"""Coefficients trained with another library, as units."""

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from padenet.core.forms import FORMS
from padenet.torch.nn import PAU

VERSIONS: dict[str, dict[str, Any]] = {
    "A": {"form": "abs_terms"},
    "B": {"form": "safe"},
    "C": {"form": "offset", "q": 0.1},
    "D": {"form": "safe"},  # B with noise while it trains
    "N": {"form": "free"},
}
"""The versions of ``rational_activations`` by their denominators."""
SUFFIXES = ("numerator", "denominator")


def from_rational_activations(
    state_dict: Mapping[str, Tensor],
    version: str,
    *,
    unit: Callable[..., PAU] = PAU,
    **options: Any,
) -> dict[str, PAU]:
    """Units with the coefficients of a model that was trained with ``rational_activations``.

    Args:
        state_dict: That model's. Every pair ``<prefix>.numerator``, ``<prefix>.denominator``
            becomes a unit; other keys are passed over.
        version: "A", "B", "C", "D" or "N", as given to ``Rational`` there: the state dict does
            not hold it. "D" is "B" with noise; for that pass ``unit=RPAU, alpha=0.1``.
        unit: ``PAU`` or ``RPAU``.
        options: Passed to every unit.

    Returns:
        Units by prefix, with the dtype and device of their coefficients, digit for digit.
    """
    if version not in VERSIONS:
        raise ValueError(f"unknown version {version!r}. Known: {', '.join(VERSIONS)}.")
    found: dict[str, dict[str, Tensor]] = {}
    for key, value in state_dict.items():
        prefix, _, name = key.rpartition(".")
        if name in SUFFIXES:
            found.setdefault(prefix, {})[name] = value
    units = {}
    for prefix, pair in found.items():
        missing = [name for name in SUFFIXES if name not in pair]
        if missing:
            (there,) = pair
            raise ValueError(f"{prefix!r} has a {there} but no {missing[0]} in the state dict.")
        a, b = (pair[name] for name in SUFFIXES)
        if a.ndim != 1 or b.ndim != 1:
            raise ValueError(
                f"{prefix!r} has coefficients of shape {tuple(a.shape)} and {tuple(b.shape)}; "
                "those of rational_activations are vectors."
            )
        like = {"dtype": a.dtype, "device": a.device, **VERSIONS[version], **options}
        degrees = FORMS[like["form"]].degrees(len(a), len(b))
        units[prefix] = unit((a, b), degrees=degrees, **like)
    if not units:
        raise ValueError(
            "the state dict has no key that ends in 'numerator': "
            f"its keys begin with {list(state_dict)[:3]}."
        )
    return units
