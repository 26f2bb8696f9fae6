"""Learnable rational (Padé) activation functions for PyTorch."""

from importlib.metadata import PackageNotFoundError, version

from padenet.conversion import (
    Left,
    Replaced,
    Report,
    convert,
    from_rational_activations,
    register_act2fn,
)
from padenet.facts import Facts, describe
from padenet.figures import plot
from padenet.fit import Fit, fit, gain, pade
from padenet.frozen import freeze
from padenet.functional import rational
from padenet.history import History
from padenet.inputs import InputHistogram
from padenet.kernels import backends
from padenet.loading import load
from padenet.nn import PAU, RPAU
from padenet.optim import Stabilizer, param_groups, stabilize
from padenet.pruning import Pruning, apply_pruning, prune
from padenet.registry import make_activation

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
