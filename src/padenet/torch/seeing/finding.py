"""Units wherever they are: in a model, in a checkpoint, among the stored starts."""

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from padenet.core.forms import FORMS
from padenet.core.starting.aims import find_aim
from padenet.core.starting.starts import STARTS, STARTS_BY_AIM, Start
from padenet.torch.deploy.exporting import count_operations
from padenet.torch.nn import PAU
from padenet.torch.saving import state
from padenet.torch.saving.checkpoints import read_checkpoint

Units = Mapping[str, PAU]
STORED = "starts"  # in the place of a checkpoint's name: the stored starts


def find_units(model: nn.Module | Units) -> dict[str, PAU]:
    """The units of a model by name, each once; a unit alone has the name of its class."""
    if isinstance(model, Mapping):
        found = dict(model)
    elif isinstance(model, nn.Module):
        found = {
            name or type(m).__name__: m for name, m in model.named_modules() if isinstance(m, PAU)
        }
    else:
        raise TypeError(f"a model or unit is needed, not {type(model).__name__}.")
    if not found:
        raise ValueError(
            f"{type(model).__name__} has no Padé units. Build it with padenet.PAU or convert it "
            "with padenet.convert."
        )
    return found


class Cost(NamedTuple):
    """``operations`` are those of the exported unit, on each element: nodes of an ONNX file."""

    parameters: int
    operations: int


def cost(unit: PAU) -> Cost:
    return Cost(unit.a.numel() + unit.b.numel(), count_operations(unit.a, unit.b, unit.spec))


def read_units(
    source: str,
    form: str = "safe",
    q: float = 1.0,
    pattern: str | None = None,
    aim: str | None = None,
) -> dict[str, PAU]:
    """The units of a checkpoint in float64, or those of the stored starts for "starts".

    A checkpoint is a state dict, or holds some at any depth, and is read without running code
    from it. A unit is a pair ``<name>.a``, ``<name>.b`` in it.

    Args:
        source: A file of torch or safetensors, a folder of transformers, or "starts".
        form, q: Those of units of which the file does not say it.
        pattern: Names to keep, e.g. "layer1.*".
        aim: That of the stored starts, by default what suits each.
    """
    if aim is not None and source != STORED:
        raise ValueError(f"aim={aim!r} is about the stored starts, not {source}. Leave it out.")
    if source == STORED:
        found = {
            s.name: PAU(s.name, aim=s.aim, form=s.form, degrees=s.degrees, dtype=torch.float64)
            for s in stored_starts(aim)
        }
    else:
        found = _units_in(read_checkpoint(source), source, form, q)
    kept = {k: u for k, u in found.items() if pattern is None or fnmatchcase(k, pattern)}
    if not kept:
        raise ValueError(f"no unit fits {pattern!r}. There are: {', '.join(found)}.")
    return kept


def stored_starts(aim: str | None = None) -> list[Start]:
    """One of each name, by default of the aim that suits it; the paper's only by default."""
    if aim is None:
        return list(STARTS.values())
    find_aim(aim)
    return [aims[aim] for aims in STARTS_BY_AIM.values() if aim in aims]


def _units_in(checkpoint: Any, source: str, form: str, q: float) -> dict[str, PAU]:
    pairs = list(_pairs(checkpoint, ()))
    holders = {holder for holder, *_ in pairs}
    units: dict[str, PAU] = {}
    for holder, name, a, b, kind in pairs:
        name = "/".join((*holder, name)) if len(holders) > 1 else name
        groups = len(a) if a.ndim == 2 else 1
        if groups == 1:
            a, b = a.flatten(), b.flatten()
        known = {k: kind[k] for k in ("form", "q") if k in kind}
        options: Any = known or {"form": form, "q": q}
        degrees = FORMS[options["form"]].degrees(a.shape[-1], b.shape[-1])
        units[name] = PAU((a, b), degrees=degrees, groups=groups, dtype=torch.float64, **options)
    if not units:
        raise ValueError(
            f"{source} has no units: no pair of tensors '<name>.a' and '<name>.b' with the shapes "
            "of coefficients."
        )
    return units


def _pairs(
    value: Any, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], str, Tensor, Tensor, dict[str, Any]]]:
    """Every pair with the path of the mapping that holds it, its name there, and its kind."""
    if isinstance(value, Mapping):
        for key, a in value.items():
            name, dot, last = str(key).rpartition(".")
            b = value.get(f"{name}{dot}b")
            if last == "a" and b is not None and _is_pair(a, b):
                key = f"{name}{dot}{state.SUFFIX}"
                kind = state.read(value[key], key) if key in value else {}
                yield path, name or "PAU", a, b, kind
        children = list(value.items())
    elif isinstance(value, (list, tuple)):
        children = list(enumerate(value))
    else:
        return
    for key, child in children:
        yield from _pairs(child, (*path, str(key)))


def _is_pair(a: Any, b: Any) -> bool:
    if not (isinstance(a, Tensor) and isinstance(b, Tensor)):
        return False
    vectors = a.ndim == b.ndim == 1
    tables = a.ndim == b.ndim == 2 and len(a) == len(b)
    return (vectors or tables) and a.numel() > 0 and a.is_floating_point() and a.dtype == b.dtype
