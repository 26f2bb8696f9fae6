"""The net of a run."""

from typing import Any, cast

import torch
from torch import nn

from padenet.lab.data import Dataset, Folder
from padenet.lab.nets import build
from padenet.lab.records.config import UNITS, Config

KINDS = 100  # of nets that one process may compile


def build_net(config: Config, data: Dataset | Folder) -> nn.Module:
    """The net of a run with its first weights, which depend on the seed alone."""
    options: dict[str, Any] = {}
    if config.activation in UNITS:
        options = {"init": config.start, "form": config.form, "aim": config.aim}
    if config.activation == "rpau":
        options["alpha"] = config.alpha
    torch.manual_seed(config.seed)
    channels = len(data.mean)
    return build(
        config.net,
        config.activation,
        classes=len(data.classes),
        in_channels=channels,
        **options,
    )


def compiled(model: nn.Module) -> nn.Module:
    """By ``torch.compile``, which by itself gives up after 8 kinds of nets in a process."""
    import torch._dynamo  # large

    settings = torch._dynamo.config
    settings.recompile_limit = max(settings.recompile_limit, KINDS)
    return cast(nn.Module, torch.compile(model))
