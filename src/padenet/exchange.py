"""Units from one framework to another: as a dict of plain numbers, as JSON or as safetensors.

    record = to_dict(torch_unit)                        # a PAU or RPAU of any framework
    from_dict(record, padenet.keras.PAU)                # made there
    from_dict(record, unit)                             # or checked, and copied into a unit

    save({"conv1": unit1, "conv2": unit2}, "units.json")          # or units.safetensors
    units = {name: from_dict(r, padenet.keras.PAU) for name, r in load("units.json").items()}

With a and b travels what they mean: form, q, degrees, groups, channel_dim and alpha, the half width
of the noise, 0 for none. Numbers are written with all their digits.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from padenet.core import replacing, require
from padenet.core.arrays import floats
from padenet.core.forms import Spec, check_shapes, check_spec

__all__ = ["from_dict", "load", "save", "to_dict"]

Record = dict[str, Any]
VERSION = 1
CHECKED = ("form", "q", "degrees", "groups", "channel_dim", "alpha")


def to_dict(unit: Any) -> Record:
    """What the unit is, in strings, numbers and lists of them."""
    return {"padenet": VERSION, **_describe(unit), **{c: _numbers(unit, c) for c in "ab"}}


def from_dict(record: Mapping[str, Any], unit: Any, **options: Any) -> Any:
    """The unit that the record is of.

    Args:
        record: From ``to_dict`` or ``load``.
        unit: A class of units, ``PAU`` or ``RPAU`` of a framework, of which one is made. Or a unit,
            which must be of the record's kind, and whose coefficients become the record's.
        options: For the class, such as ``rngs`` of flax. A ``channel_dim`` here is for where the
            channels lie elsewhere than they did.
    """
    a, b, kind = _read(record)
    if isinstance(unit, type):
        kind = {**kind, **{k: v for k, v in options.items() if k in CHECKED}}
        options = {**options, **{k: v for k, v in kind.items() if k != "alpha"}}
        if _has_noise(unit):
            options["alpha"] = kind["alpha"]
        elif kind["alpha"]:
            raise ValueError(
                f"the record is of a unit with noise, alpha={kind['alpha']}, which "
                f"{unit.__name__} has not. Take RPAU, or record | {{'alpha': 0.0}}."
            )
        options["degrees"] = tuple(options["degrees"])
        return unit((a, b), **options)
    if options:
        raise TypeError(f"{', '.join(options)}: for a class of units, but a unit was given.")
    own = _describe(unit)
    ignored = {"channel_dim"} if own["groups"] == kind["groups"] == 1 else set()
    if other := [k for k in CHECKED if k not in ignored and kind[k] != own[k]]:
        was, now = (", ".join(f"{k}={v[k]!r}" for k in other) for v in (kind, own))
        raise ValueError(
            f"the record is of a unit with {was}, and this one has {now}: its coefficients would "
            "mean something else. Make the unit from the record: from_dict(record, PAU)."
        )
    for variable, values in ((unit.a, a), (unit.b, b)):
        _fill(variable, values)
    return unit


def save(units: Any, path: str | os.PathLike[str]) -> None:
    """Write a unit, or units by name, as ``.json`` or ``.safetensors``."""
    suffix = _suffix(path)
    many = isinstance(units, Mapping)
    records = {name: to_dict(unit) for name, unit in (units if many else {"": units}).items()}
    with replacing(path) as file:
        if suffix == ".json":
            file.write_text(json.dumps(records if many else records[""]), encoding="utf-8")
            return
        tensors = {
            _join(name, c): np.array(record.pop(c), float)
            for name, record in records.items()
            for c in "ab"
        }
        kinds = json.dumps(records if many else records[""])
        safetensors = require("safetensors.numpy", "safetensors")
        safetensors.save_file(tensors, file, {"padenet": kinds})


def load(path: str | os.PathLike[str]) -> Any:
    """What ``save`` wrote: the record of a unit, or records by name. Nothing in it is run."""
    if _suffix(path) == ".json":
        return json.loads(Path(path).read_text(encoding="utf-8"))
    safe_open = require("safetensors", "safetensors").safe_open
    with safe_open(os.fspath(path), "numpy") as file:
        found = json.loads((file.metadata() or {}).get("padenet", "null"))
        if found is None:
            raise ValueError(f"{path} holds tensors, but no units that padenet.exchange wrote.")
        for name, record in {"": found}.items() if "form" in found else found.items():
            record |= {c: file.get_tensor(_join(name, c)).tolist() for c in "ab"}
    return found


def _suffix(path: str | os.PathLike[str]) -> str:
    suffix = Path(path).suffix
    if suffix not in (".json", ".safetensors"):
        raise ValueError(f"{path} must end in .json or .safetensors, which says how it is written.")
    return suffix


def _join(name: str, coefficients: str) -> str:
    return f"{name}.{coefficients}" if name else coefficients


def _describe(unit: Any) -> Record:
    kind = getattr(unit, "kind", unit)  # flax and equinox keep what a unit is apart
    try:
        spec, degrees, groups = kind.spec, kind.degrees, kind.groups
    except AttributeError:
        raise TypeError(
            f"{type(unit).__name__} is no unit: give a PAU or RPAU of any framework, for a model "
            "its units by name."
        ) from None
    return {
        "form": spec.form,
        "q": float(spec.q),
        "degrees": list(degrees),
        "groups": int(groups),
        "channel_dim": int(spec.channel_dim),
        "alpha": float(getattr(unit, "alpha", spec.alpha)),
    }


def _numbers(unit: Any, name: str) -> list[Any]:
    c = getattr(unit, name)
    if hasattr(c, "get_value"):  # flax
        c = c.get_value()
    elif hasattr(c, "assign"):  # Keras
        c = c.value
    numbers: list[Any] = floats(c).tolist()
    return numbers


def _read(record: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray, Record]:
    if missing := [k for k in (*CHECKED, "a", "b") if k not in record]:
        raise ValueError(
            f"the record has no {', '.join(missing)}: it is not what to_dict(unit) gives. "
            "From load(path) of several units take one by its name."
        )
    if record.get("padenet", VERSION) > VERSION:
        raise ValueError(
            f"the record has version {record['padenet']}, this padenet reads up to {VERSION}. "
            "Install a newer one."
        )
    kind = {k: record[k] for k in CHECKED}
    kind["degrees"] = list(kind["degrees"])
    a, b = floats(record["a"]), floats(record["b"])
    spec = Spec(kind["form"], kind["q"], kind["channel_dim"], kind["alpha"])
    check_spec(spec)
    check_shapes(a.shape, b.shape, spec)
    degrees = list(spec.flags.degrees(a.shape[-1], b.shape[-1]))
    groups = len(a) if a.ndim == 2 else 1
    if (degrees, groups) != (kind["degrees"], kind["groups"]):
        raise ValueError(
            f"the record says degrees={kind['degrees']}, groups={kind['groups']}, but its "
            f"coefficients are of degrees={degrees}, groups={groups}."
        )
    return a, b, kind


def _has_noise(unit: type) -> bool:
    return any(c.__name__ == "RPAU" for c in unit.__mro__)


def _fill(variable: Any, values: np.ndarray) -> None:
    if hasattr(variable, "new_tensor"):  # torch
        variable.detach().copy_(variable.new_tensor(values.tolist()))
    elif hasattr(variable, "assign"):  # Keras
        variable.assign(values)
    elif hasattr(variable, "get_value"):  # flax
        variable.set_value(variable.get_value().at[...].set(values))
    else:
        raise TypeError(
            f"coefficients in a {type(variable).__name__} cannot be changed. Make the unit from "
            "the record: from_dict(record, PAU)."
        )
