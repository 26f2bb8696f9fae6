"""What a unit is besides its coefficients, as a tensor of its ``state_dict``.

The same a and b are other functions with another form, q or sharing, so these travel with them.
The tensor holds the characters of a JSON text, since tensors are all that some file formats take.
As float32 they survive what is done to whole states: averages, also running ones, and casts to 16
bits. Texts of one length let a tool that loads in place get as far as the check.
"""

import json
import zlib
from typing import Any

import torch
from torch import Tensor

from padenet.core.forms import Spec

CHECKED = ("form", "q", "degrees", "groups", "channel_dim")
SUFFIX = "_extra_state"  # torch's name for it, after that of the unit
WIDTH = 256  # characters; a longer text takes as much again


def describe(degrees: tuple[int, int], spec: Spec, groups: int) -> dict[str, Any]:
    """What must be the same where coefficients are loaded; arguments that have no effect are
    left out."""
    kind = {"form": spec.form, "degrees": list(degrees), "groups": groups}
    if spec.flags.around:
        kind["q"] = spec.q
    if groups > 1:
        kind["channel_dim"] = spec.channel_dim
    return kind


def fingerprint(a: Tensor, b: Tensor) -> int:
    """A number for coefficients, the same for those that differ by rounding alone; 0 where they
    have no values."""
    try:
        values = [*a.flatten().tolist(), *b.flatten().tolist()]
    except RuntimeError:  # fake
        return 0
    return zlib.crc32(" ".join(f"{v:.3e}" for v in values).encode())


def write(kind: dict[str, Any], device: torch.device | None) -> Tensor:
    text = json.dumps(kind, separators=(",", ":"))
    codes = text.ljust(-(-len(text) // WIDTH) * WIDTH).encode("ascii")
    return torch.tensor(list(codes), dtype=torch.float32, device=device)


def read(saved: Any, name: str) -> dict[str, Any]:
    """What ``write`` wrote, under this name; nothing for a tensor without values."""
    try:
        codes = saved.detach().double().round().int().tolist()
    except RuntimeError:  # on the device "meta", or fake
        return {}
    except AttributeError:
        codes = None
    try:
        kind: dict[str, Any] = json.loads(bytes(codes))
        if {"form", "degrees", "groups"} <= kind.keys():
            return kind
    except (AttributeError, TypeError, ValueError):
        pass
    raise ValueError(
        f"{name!r} does not say what the unit is: something has changed its numbers. Save the "
        "model again; or delete the entry, and the unit is taken to be as it is here."
    )


def compare(saved: dict[str, Any], own: dict[str, Any]) -> str:
    """What is wrong with loading one into the other, "" for nothing."""
    other = [k for k in CHECKED if saved and saved.get(k) != own.get(k)]
    if not other:
        return ""
    was, now = (_show(k, other) for k in (saved, own))
    return f"it was saved with {was} and has {now} here, where its coefficients mean something else"


def _show(kind: dict[str, Any], names: list[str]) -> str:
    return ", ".join(f"{k}={arguments(kind)[k]!r}" for k in names if k in kind)


def arguments(kind: dict[str, Any]) -> dict[str, Any]:
    """Of ``PAU``, for a unit of that kind."""
    found = {k: kind[k] for k in (*CHECKED, "alpha") if k in kind}
    return {**found, "degrees": tuple(kind["degrees"])}
