"""``PAU`` and ``RPAU`` as layers of Equinox."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from padenet.core.forms import Spec, check_spec
from padenet.jax.functional import apply
from padenet.jax.noise import words_of
from padenet.jax.units import Kind, start

__all__ = ["PAU", "RPAU"]


class PAU(eqx.Module):
    r"""Padé activation unit: ``x -> P(x) / Q(x)`` with learnable coefficients.

        mlp = eqx.nn.MLP(2, 1, 64, 2, activation=padenet.jax.equinox.PAU(), key=key)

    ``eqx.nn.MLP`` copies it, one unit per layer and neuron.

    Args:
        init: Start of every unit: a name from ``padenet.core.starts.STARTS``, a pair (a, b), a
            ``padenet.fit``, or a function, which is fitted over [-3, 3].
        aim: Of a name or function: "wide", good up to ±10; "near", best on [-3, 3]; "steady",
            which trains best.
        degrees: (m, n), both from 0 on.
        form: "safe", "abs_terms", "free" or "offset".
        q: Constant of the denominator of "safe" and "offset", in [1e-6, 1].
        groups: Number of units, which share out ``channel_dim`` evenly.
        channel_dim: The dim of one example, without batch, that the groups divide: 0 as in
            ``eqx.nn.Conv2d``.
        dtype: Of the coefficients; float32 by default.
    """

    a: jax.Array
    b: jax.Array
    kind: Kind = eqx.field(static=True)

    def __init__(
        self,
        init: Any | Callable[[Any], Any] = "lrelu",
        *,
        aim: str | None = None,
        degrees: tuple[int, int] = (5, 4),
        form: str = "safe",
        q: float = 1.0,
        groups: int = 1,
        channel_dim: int = 0,
        dtype: Any = None,
    ):
        a, b, self.kind = start(init, aim, degrees, groups, Spec(form, q, channel_dim))
        self.a, self.b = (jnp.asarray(c, dtype or jnp.float32) for c in (a, b))

    def __call__(self, x: jax.Array, *, key: Any = None) -> jax.Array:
        """``key`` is ignored: other layers take one."""
        return apply(x, self.a, self.b, None, self.kind.spec._replace(alpha=0.0))


class RPAU(PAU):
    """Randomised Padé activation unit: a PAU with noise on its coefficients while it trains.

    Every element of ``x`` sees coefficients ``c (1 + u)`` of its own, ``u ~ U(-alpha, alpha)``.
    Like ``eqx.nn.Dropout`` it takes a key, unless ``inference`` is true.

    Args:
        alpha: Half width of the noise, in [0, 1].
        inference: Whether to leave the noise out; ``eqx.nn.inference_mode`` sets it.
    """

    inference: bool

    def __init__(
        self, init: Any = "lrelu", *, alpha: float = 0.01, inference: bool = False, **options: Any
    ):
        super().__init__(init, **options)
        check_spec(self.kind.spec._replace(alpha=alpha))
        self.kind = self.kind._replace(spec=self.kind.spec._replace(alpha=float(alpha)))
        self.inference = inference

    def __call__(
        self, x: jax.Array, *, key: Any = None, inference: bool | None = None
    ) -> jax.Array:
        inference = self.inference if inference is None else inference
        if inference or self.kind.spec.alpha == 0:
            return super().__call__(x)
        if key is None:
            raise RuntimeError(
                "RPAU needs a key when it is not in inference: rpau(x, key=key), or "
                "eqx.nn.inference_mode(model)."
            )
        return apply(x, self.a, self.b, words_of(key), self.kind.spec)
