"""``load(path, model)``: a saved model with units, from a model without them."""

import copy
import os
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from padenet.torch.conversion import convert
from padenet.torch.nn import PAU, RPAU
from padenet.torch.saving import state as states
from padenet.torch.saving.checkpoints import read_checkpoint

State = Mapping[str, Tensor]
Kind = dict[str, Any]


def load(path: str | os.PathLike[str] | State, model: Any, **options: Any) -> Any:
    """A copy of ``model`` with the weights that were saved, and units where the saved one had them.

        torch.save(model.state_dict(), "net.pt")               # or safetensors.torch.save_model
        net = padenet.load("net.pt", Net())                    # Net as before it was converted

        model.save_pretrained("folder")                        # transformers
        model = padenet.load("folder", transformers.BertModel)

    The file says where its units are and of what form, q, degrees, groups and start. ``model`` is
    converted there, and filled. Nothing in the file is run.

    Args:
        path: A file of torch or safetensors, a folder of ``save_pretrained``, or a state dict.
        model: One of the class that was converted. Or a class of transformers: its
            ``from_pretrained`` reads all but the units.
        options: For that ``from_pretrained``.

    Returns:
        The new model.
    """
    state, where = _read(path)
    kinds = _find_kinds(state)
    folder = isinstance(path, (str, os.PathLike)) and Path(path).is_dir()
    if isinstance(model, type) and hasattr(model, "from_pretrained"):
        if not folder:
            raise ValueError(f"{where} is no folder, from which {model.__name__} could be loaded.")
        names = {name for saved, kind in kinds.items() for name in (saved, kind.get("name", saved))}
        with _without_report(k for name in names for k in _keys(name)):
            model = model.from_pretrained(path, **options)
        state = _rename(state, _find_names(model, kinds, where))
        kinds = _find_kinds(state)
        new = _make_units(model, kinds, state, where)
        for name in kinds:
            new.get_submodule(name).load_state_dict(_part(state, name))
        _warn_of_none(new, where)
        return new
    if options or not isinstance(model, nn.Module):
        more = f" and {', '.join(options)}" if options else ""
        raise TypeError(
            f"padenet.load takes a model, or a class of transformers with options, not {model!r}"
            f"{more}."
        )
    if folder and hasattr(model, "from_pretrained"):
        raise TypeError(
            f"{where} is a folder, and model has a from_pretrained, which may read it otherwise "
            f"than its names say. Give the class: padenet.load(path, {type(model).__name__})."
        )
    if any(p.is_meta for p in model.parameters()):
        raise ValueError('model is on the device "meta". Give it memory: model.to_empty(device=…).')
    new = _make_units(model, kinds, state, where)
    _fill(new, state, where)
    _warn_of_none(new, where)
    return new


def _warn_of_none(new: nn.Module, where: str) -> None:
    if not any(isinstance(module, PAU) for module in new.modules()):
        warnings.warn(
            f"{where} holds no units, and none are made. Is it the file of the plain model?",
            UserWarning,
            stacklevel=3,
        )


def _read(path: Any) -> tuple[State, str]:
    where = str(path) if isinstance(path, (str, os.PathLike)) else "the state"
    state = path if isinstance(path, Mapping) else read_checkpoint(path)
    flat = isinstance(state, Mapping) and all(isinstance(v, Tensor) for v in state.values())
    if not flat:
        raise ValueError(
            f"{where} is no state dict: not all of it are tensors by name. Give the part that is "
            "one, such as padenet.load(checkpoint['model'], model)."
        )
    return state, where


def _find_kinds(state: State) -> dict[str, Kind]:
    """What the units are, by their names."""
    kinds = {}
    for key in [k for k in state if k.endswith(states.SUFFIX)]:
        try:
            kinds[_owner(key)] = states.read(state[key], key)
        except ValueError:
            if f"{key.removesuffix(states.SUFFIX)}a" in state:  # else it is another module's
                raise
    return kinds


def _keys(name: str) -> list[str]:
    return [f"{name}.{k}" if name else k for k in ("a", "b", states.SUFFIX)]


def _part(state: State, name: str) -> dict[str, Tensor]:
    return {k.rpartition(".")[2]: state[k] for k in _keys(name) if k in state}


@contextmanager
def _without_report(keys: Iterable[str]) -> Iterator[None]:
    """transformers says nothing of these keys, for which the plain model has no place."""
    base: Any = getattr(sys.modules.get("transformers"), "PreTrainedModel", None)
    before = getattr(base, "_keys_to_ignore_on_load_unexpected", None)
    if base is not None:
        base._keys_to_ignore_on_load_unexpected = [*(before or ()), *map(re.escape, keys)]
    try:
        yield
    finally:
        if base is not None:
            base._keys_to_ignore_on_load_unexpected = before


def _find_names(model: Any, kinds: dict[str, Kind], where: str) -> dict[str, str | None]:
    """Those of units in ``model``, which may be a part of the saved model, or hold it."""
    modules, base = dict(model.named_modules()), getattr(model, "base_model_prefix", "") + "."
    names: dict[str, str | None] = {}
    for saved, kind in kinds.items():
        own = str(kind.get("name", saved))
        known = own, base + own, own.removeprefix(base)
        names[saved] = next((name for name in known if _owner(name) in modules), None)
    if lost := [saved for saved, name in names.items() if name is None]:
        warnings.warn(
            f"{type(model).__name__} has no place for these units of {where}: {', '.join(lost)}.",
            UserWarning,
            stacklevel=3,
        )
    return names


def _rename(state: State, names: Mapping[str, str | None]) -> State:
    """With other names of units; None leaves one out."""
    renamed = {}
    for key, value in state.items():
        owner = _owner(key)
        new = names.get(owner, owner)
        if new is not None:
            renamed[f"{new}{key[len(owner) :]}"] = value
    return renamed


def _make_units(model: nn.Module, kinds: dict[str, Kind], state: State, where: str) -> nn.Module:
    """A copy of ``model`` that has units of these kinds."""

    def missing(model: nn.Module) -> list[str]:
        have = {
            name for name, m in model.named_modules(remove_duplicate=False) if isinstance(m, PAU)
        }
        return [name for name in kinds if name not in have]

    wanted = missing(model)
    if wanted:
        shared = any(kind.get("shared") for kind in kinds.values())
        places: list[str] = []

        def only(name: str, kind: Any) -> bool:
            places.append(name)
            return name in wanted

        new, _ = convert(model, only=only, share=shared)
        if lost := missing(new):
            there = ", ".join(places[:8]) or "none"
            more = ", …" if len(places) > 8 else ""
            raise ValueError(
                f"{where} has units where {type(model).__name__} has no activation: "
                f"{', '.join(lost[:4])}. Give the model that was converted. Activations are "
                f"there: {there}{more}."
            )
    else:
        new = copy.deepcopy(model)
    weights = {k: v.dtype for k, v in new.state_dict().items() if _owner(k) not in kinds}
    exact = all(v.dtype == weights.get(k, v.dtype) for k, v in state.items())  # none is cast
    for name in wanted:
        unit: Any = new.get_submodule(name)
        made = _make_unit(unit, kinds[name], _part(state, name), exact)
        new = _replace(new, unit, made)
    return new


def _make_unit(unit: PAU, kind: Kind, part: State, exact: bool) -> PAU:
    """``unit`` if it is of that kind, and of the dtype of its coefficients where that matters."""
    if "a" not in part:  # it is another name of one that has them
        return unit
    dtype = part["a"].dtype if exact else unit.a.dtype
    arguments: dict[str, Any] = states.arguments(kind)
    if arguments == states.arguments(unit.describe()) and dtype == unit.a.dtype:
        return unit
    make = RPAU if "alpha" in kind else PAU
    made = make((part["a"], part["b"]), **arguments, dtype=dtype, device=unit.a.device)
    made.shared = unit.shared
    return made.train(unit.training)


def _replace(model: nn.Module, old: nn.Module, new: nn.Module) -> nn.Module:
    """At every place of it."""
    if model is old:
        return new
    for module in model.modules():
        for attr, child in module._modules.items():
            if child is old:
                module._modules[attr] = new
    return model


def _owner(key: str) -> str:
    return key.rpartition(".")[0]


def _fill(model: nn.Module, state: State, where: str) -> None:
    result = model.load_state_dict(state, strict=False)
    own = model.state_dict(keep_vars=True)
    loaded = {id(v) for k, v in own.items() if k in state}
    missing = [k for k in result.missing_keys if id(own.get(k)) not in loaded]  # others are tied
    if missing or result.unexpected_keys:
        wrong = {"is without": missing, "has besides": result.unexpected_keys}
        said = " and ".join(f"{k} {', '.join(v[:4])}" for k, v in wrong.items() if v)
        raise ValueError(
            f"{where} does not fit {type(model).__name__}: it {said}. Give the model that was "
            "converted; units in files of earlier versions do not say what they are, so convert "
            "the model as it was and use load_state_dict."
        )
