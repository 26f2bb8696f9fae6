"""The unit in PyTorch: formula, kernels, modules, and what models with units need.

``__init__.pyi`` lists what other parts of padenet use of it.
"""

from padenet.core.support.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
