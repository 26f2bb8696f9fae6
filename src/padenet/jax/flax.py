"""``PAU`` and ``RPAU`` as layers of Flax (``flax.nnx``)."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from padenet.core.forms import Spec, check_spec
from padenet.jax.functional import apply
from padenet.jax.noise import words_of
from padenet.jax.units import start

__all__ = ["PAU", "RPAU"]


class PAU(nnx.Module):
    r"""Padé activation unit: ``x -> P(x) / Q(x)`` with learnable coefficients.

        self.act = padenet.jax.flax.PAU()       # one unit serves the whole layer

    Args:
        init: Start of every unit: a name from ``padenet.core.starts.STARTS``, a pair (a, b), a
            ``padenet.fit``, or a function, which is fitted over [-3, 3].
        aim: Of a name or function: "wide", good up to ±10; "near", best on [-3, 3]; "steady",
            which trains best.
        degrees: (m, n), both from 0 on.
        form: "safe", "abs_terms", "free" or "offset".
        q: Constant of the denominator of "safe" and "offset", in [1e-6, 1].
        groups: Number of units, which share out ``channel_dim`` evenly.
        channel_dim: The dim of ``x`` that the groups divide: the last, as everywhere in Flax.
        dtype: Of the computation; that of ``x`` by default.
        param_dtype: Of the coefficients.
    """

    def __init__(
        self,
        init: Any | Callable[[Any], Any] = "lrelu",
        *,
        aim: str | None = None,
        degrees: tuple[int, int] = (5, 4),
        form: str = "safe",
        q: float = 1.0,
        groups: int = 1,
        channel_dim: int = -1,
        dtype: Any = None,
        param_dtype: Any = jnp.float32,
        rngs: nnx.Rngs | None = None,
    ):
        a, b, self.kind = start(init, aim, degrees, groups, Spec(form, q, channel_dim))
        self.a, self.b = (nnx.Param(jnp.asarray(c, param_dtype)) for c in (a, b))
        self.dtype = dtype

    def __call__(self, x: jax.Array) -> jax.Array:
        return self._apply(x, None)

    def _apply(self, x: jax.Array, key: Any) -> jax.Array:
        x = x if self.dtype is None else jnp.asarray(x, self.dtype)
        spec = self.kind.spec
        spec = spec if key is not None else spec._replace(alpha=0.0)
        return apply(x, self.a[...], self.b[...], key, spec)


class RPAU(PAU):
    """Randomised Padé activation unit: a PAU with noise on its coefficients while it trains.

    Every element of ``x`` sees coefficients ``c (1 + u)`` of its own, ``u ~ U(-alpha, alpha)``.
    ``model.train()`` and ``model.eval()`` turn the noise on and off, as with ``nnx.Dropout``.

    Args:
        alpha: Half width of the noise, in [0, 1].
        deterministic: Whether to leave the noise out.
        rngs: Keys of the noise; or give them, or a key, with every call.
        rng_collection: Whose keys are taken.
    """

    def __init__(
        self,
        init: Any = "lrelu",
        *,
        alpha: float = 0.01,
        deterministic: bool = False,
        rng_collection: str = "dropout",
        rngs: nnx.Rngs | None = None,
        **options: Any,
    ):
        super().__init__(init, **options)
        check_spec(self.kind.spec._replace(alpha=alpha))
        self.kind = self.kind._replace(spec=self.kind.spec._replace(alpha=float(alpha)))
        self.deterministic = deterministic
        self.rng_collection = rng_collection
        self.rngs = nnx.data(None) if rngs is None else rngs[rng_collection].fork()

    def __call__(
        self, x: jax.Array, *, deterministic: bool | None = None, rngs: Any = None
    ) -> jax.Array:
        deterministic = self.deterministic if deterministic is None else deterministic
        if deterministic or self.kind.spec.alpha == 0:
            return self._apply(x, None)
        source = self.rngs if rngs is None else rngs
        if source is None:
            raise ValueError(
                "RPAU needs keys when it is not deterministic: RPAU(rngs=nnx.Rngs(0)), "
                "rpau(x, rngs=rngs), or model.eval()."
            )
        if isinstance(source, nnx.Rngs):
            source = source[self.rng_collection]
        key = source if isinstance(source, jax.Array) else source()
        return self._apply(x, words_of(key))
