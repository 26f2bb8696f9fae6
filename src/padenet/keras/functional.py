"""``rational(x, a, b)`` on the tensors of Keras's backend, by what padenet has for that backend."""

from collections.abc import Callable
from typing import Any

from padenet.core import Spec, require

keras = require("keras", "keras")

Tensor = Any


def rational(
    x: Tensor, a: Tensor, b: Tensor, *, form: str = "safe", q: float = 1.0, channel_dim: int = -1
) -> Tensor:
    """Padé activation ``P(x) / Q(x)``, elementwise, right for every finite ``x``.

    On JAX ``padenet.jax.rational``, on PyTorch ``padenet.rational``, with their kernels; on
    TensorFlow the formula with its own backward. The arguments are those of ``padenet.rational``,
    except that channels come last by default, as in Keras.
    """
    return apply(x, a, b, None, Spec(form, q, channel_dim))


def randomized(
    x: Tensor,
    a: Tensor,
    b: Tensor,
    key: Tensor,
    *,
    alpha: float = 0.01,
    form: str = "safe",
    q: float = 1.0,
    channel_dim: int = -1,
) -> Tensor:
    """``rational`` in which every element of ``x`` sees coefficients ``c (1 + u)`` of its own, with
    ``u ~ U(-alpha, alpha)`` drawn for each element and coefficient.

    Args:
        key: Two whole numbers of 32 bits, the high one first, as a ``SeedGenerator`` gives them.
            The noise of a key is the same number for number on every backend.
        alpha: Half width of the noise, in [0, 1]. The rest as for ``rational``.
    """
    return apply(x, a, b, key, Spec(form, q, channel_dim, alpha))


def apply(x: Tensor, a: Tensor, b: Tensor, key: Tensor | None, spec: Spec) -> Tensor:
    name = keras.backend.backend()
    if name not in BACKENDS:
        raise ValueError(
            f"padenet.keras does not run on the backend {name!r}. Known: {', '.join(BACKENDS)}; "
            "set KERAS_BACKEND before Keras is imported."
        )
    return BACKENDS[name](x, a, b, key, spec)


def _on_jax(x: Tensor, a: Tensor, b: Tensor, key: Tensor | None, spec: Spec) -> Tensor:
    from padenet.jax import randomized, rational

    form, q, channel_dim, alpha = spec
    if key is None:
        return rational(x, a, b, form=form, q=q, channel_dim=channel_dim)
    return randomized(x, a, b, key, alpha=alpha, form=form, q=q, channel_dim=channel_dim)


def _on_torch(x: Tensor, a: Tensor, b: Tensor, key: Tensor | None, spec: Spec) -> Tensor:
    from padenet.torch import randomized, rational

    form, q, channel_dim, alpha = spec
    if key is None:
        return rational(x, a, b, form=form, q=q, channel_dim=channel_dim)
    high, low = (key.long() & 0xFFFFFFFF).unbind()
    whole = high << 32 | low
    return randomized(x, a, b, whole, alpha=alpha, form=form, q=q, channel_dim=channel_dim)


def _on_tensorflow(x: Tensor, a: Tensor, b: Tensor, key: Tensor | None, spec: Spec) -> Tensor:
    from padenet.keras.tensorflow import apply

    return apply(x, a, b, key, spec)


def _on_numpy(x: Tensor, a: Tensor, b: Tensor, key: Tensor | None, spec: Spec) -> Tensor:
    from padenet.numpy import rational

    if key is not None:
        raise ValueError(
            "Keras's NumPy backend does not train, and padenet draws no noise on it. Call the "
            "layer with training=False."
        )
    return rational(x, a, b, form=spec.form, q=spec.q, channel_dim=spec.channel_dim)


BACKENDS: dict[str, Callable[[Tensor, Tensor, Tensor, Tensor | None, Spec], Tensor]] = {
    "jax": _on_jax,
    "tensorflow": _on_tensorflow,
    "torch": _on_torch,
    "numpy": _on_numpy,
}
