"""Tensors from files, without running code from them."""

import json
import pickle
from pathlib import Path
from typing import Any

import torch

from padenet.core.support.extras import require

FOLDER = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
"""What holds the weights in a folder that ``save_pretrained`` of transformers wrote."""


def read_checkpoint(path: str | Path) -> Any:
    """What a file of torch or safetensors holds, or a folder of transformers, on the CPU."""
    path = Path(path)
    if path.is_dir():
        there = [path / name for name in FOLDER if (path / name).is_file()]
        if not there:
            raise FileNotFoundError(f"{path} holds no weights: none of {', '.join(FOLDER)}.")
        return read_checkpoint(there[0])
    if path.name.endswith(".index.json"):
        names = json.loads(path.read_text(encoding="utf-8"))["weight_map"].values()
        parts = [read_checkpoint(path.with_name(name)) for name in dict.fromkeys(names)]
        return {key: value for part in parts for key, value in part.items()}
    if path.suffix == ".safetensors":
        errors: Any = require("safetensors", "safetensors").SafetensorError
        load = require("safetensors.torch", "safetensors").load_file
    else:
        errors = (pickle.UnpicklingError, RuntimeError, EOFError, OSError)
        load = _load_torch
    try:
        return load(path)
    except FileNotFoundError:
        raise
    except errors as error:
        raise ValueError(
            f"{path} is no checkpoint of tensors, or cut short. Save the state dict: "
            "torch.save(model.state_dict(), path)."
        ) from error


def _load_torch(path: Path) -> Any:
    return torch.load(path, map_location="cpu", weights_only=True)
