"""Learnable rational (Padé) activation functions for PyTorch."""

from importlib.metadata import PackageNotFoundError, version

from padenet.core.facts import Facts, describe
from padenet.core.fitting import Fit, fit, gain, pade
from padenet.torch.conversion import (
    Left,
    Replaced,
    Report,
    convert,
    from_rational_activations,
    register_act2fn,
)
from padenet.torch.deploy.frozen import freeze
from padenet.torch.functional import rational
from padenet.torch.kernels import backends
from padenet.torch.nn import PAU, RPAU
from padenet.torch.optim import Stabilizer, param_groups, stabilize
from padenet.torch.pruning import Pruning, apply_pruning, prune
from padenet.torch.registry import make_activation
from padenet.torch.saving.loading import load
from padenet.torch.seeing.drawing import plot
from padenet.torch.seeing.history import History
from padenet.torch.seeing.inputs import InputHistogram

__all__ = [
    "PAU",
    "RPAU",
    "Facts",
    "Fit",
    "History",
    "InputHistogram",
    "Left",
    "Pruning",
    "Replaced",
    "Report",
    "Stabilizer",
    "apply_pruning",
    "backends",
    "convert",
    "describe",
    "fit",
    "freeze",
    "from_rational_activations",
    "gain",
    "load",
    "make_activation",
    "pade",
    "param_groups",
    "plot",
    "prune",
    "rational",
    "register_act2fn",
    "stabilize",
]

try:
    __version__ = version("padenet")
except PackageNotFoundError:  # run from a source tree that is not installed
    __version__ = "0+unknown"
