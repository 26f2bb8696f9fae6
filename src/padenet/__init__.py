"""Learnable rational (Padé) activation functions for PyTorch."""

from importlib.metadata import PackageNotFoundError, version

from padenet.convert import convert, from_rational_activations, param_groups
from padenet.fit import Fit, fit, gain, pade
from padenet.functional import rational
from padenet.kernels import backends
from padenet.nn import PAU, RPAU

__all__ = [
    "PAU",
    "RPAU",
    "Fit",
    "backends",
    "convert",
    "fit",
    "from_rational_activations",
    "gain",
    "pade",
    "param_groups",
    "rational",
]

try:
    __version__ = version("padenet")
except PackageNotFoundError:  # run from a source tree that is not installed
    __version__ = "0+unknown"
