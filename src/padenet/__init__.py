"""Learnable rational (Padé) activation functions.

The names below are loaded when they are first used: ``import padenet`` needs NumPy alone, and
what is PyTorch's asks for PyTorch. ``__init__.pyi`` lists where each comes from.
"""

from importlib.metadata import PackageNotFoundError, version

from padenet.core.support.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)

try:
    __version__ = version("padenet")
except PackageNotFoundError:  # run from a source tree that is not installed
    __version__ = "0+unknown"
