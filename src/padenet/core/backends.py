"""What computes units here, asked of each framework that is in use."""

import sys
from importlib import import_module
from importlib.util import find_spec

from padenet.core import native

PLACES = {"torch": "padenet.torch.kernels", "jax": "padenet.jax.native"}
"""Where a framework says what it has: ``backends() -> {name: what it is here}``."""


def backends() -> dict[str, str]:
    """What each backend is on this machine, in the order in which they are asked.

    PyTorch's are there where it is installed, those of JAX once it is imported.

    >>> padenet.backends()
    {'native': 'C++, avx512, OpenMP', 'plain': 'plain PyTorch, any device'}
    """
    found = {"native": native.status()}
    for package, place in PLACES.items():
        if package in sys.modules or (package == "torch" and find_spec(package)):
            found |= import_module(place).backends()
    return found
