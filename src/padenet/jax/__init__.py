"""The unit in JAX: functions here, layers in ``padenet.jax.flax`` and ``padenet.jax.equinox``.

``__init__.pyi`` lists the names; they are loaded when they are used.
"""

from padenet.core.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
