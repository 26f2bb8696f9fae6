"""What a unit is, without any framework: forms, formula, noise, starts, fits, facts, text.

``__init__.pyi`` lists what other parts of padenet use of it.
"""

from padenet.core.support.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
