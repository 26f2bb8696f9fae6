"""Checkpoint files: tensors and plain values only, checked before they are used."""

import zipfile
from pathlib import Path
from typing import Any, cast

import torch

from padenet.lab.records.files.disk import write


def write_checkpoint(path: Path, state: dict[str, Any]) -> None:
    write(path, lambda file: torch.save(state, file))


def read_checkpoint(path: Path) -> dict[str, Any]:
    """On the CPU."""
    try:
        with zipfile.ZipFile(path) as file:
            if (part := file.testzip()) is not None:  # torch.load looks at no check sum
                raise ValueError(f"the check sum of {part} is another")
        found = torch.load(path, map_location="cpu", weights_only=True)
        kinds = type(found["epoch"]), type(found["net"]), type(found["optimizer"])
        if not all(map(issubclass, kinds, (int, dict, dict))):
            raise TypeError(f"epoch, net and optimizer are of types {kinds}")
        return cast(dict[str, Any], found)
    except Exception as error:
        raise OSError(
            f"{path} cannot be read: it is incomplete, damaged or not a checkpoint. Delete it to "
            "start the run again, or put back a copy."
        ) from error
