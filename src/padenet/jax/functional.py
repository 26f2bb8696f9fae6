"""``rational(x, a, b)`` and its randomised sibling: checks, and hands over to the primitives."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from padenet.core.forms import Spec, check_groups, check_shapes, check_spec
from padenet.core.native import DTYPES
from padenet.jax import batching, primitives
from padenet.jax.noise import words_of

Array = Any

assert batching.KINDS  # its import teaches the primitives vmap


def rational(
    x: Any, a: Any, b: Any, *, form: str = "safe", q: float = 1.0, channel_dim: int = 1
) -> jax.Array:
    r"""Padé activation ``P(x) / Q(x)``, elementwise, right for every finite ``x``.

        P(x) = a_0 + a_1 x + ... + a_m x^m
        Q(x) = q + |b_1 x + ... + b_n x^n|          form="safe"
             = 1 + |b_1 x| + ... + |b_n x^n|        form="abs_terms"
             = 1 + b_1 x + ... + b_n x^n            form="free" (may have poles)
             = q + |b_0 + b_1 x + ... + b_n x^n|    form="offset"

    Every transformation of JAX applies, in any nesting, and on several devices nothing is
    gathered. On the CPU it is the C++ kernel, on other devices and in exports the formula in JAX's
    operations (``padenet.backends()``). Backward keeps x and the coefficients.

    Args:
        x: Array of any shape in float32, bfloat16, float16 or float64.
        a: Numerator ``(m + 1,)``, constant term first, or ``(groups, m + 1)``.
        b: Denominator ``(n,)`` from b_1 on, or ``(groups, n)``; ``n + 1`` from b_0 for "offset".
        form: The denominator, by its formula.
        q: The constant of "safe" and "offset", in [1e-6, 1].
        channel_dim: The dim of ``x`` that the groups divide evenly. Unused without groups.

    Returns:
        Array with the shape and dtype of ``x``. float16 and bfloat16 are computed in float32 and
        rounded once.
    """
    check_spec(Spec(form, q, channel_dim))
    return apply(x, a, b, None, Spec(form, float(q), channel_dim))


def randomized(
    x: Any,
    a: Any,
    b: Any,
    key: Any,
    *,
    alpha: float = 0.01,
    form: str = "safe",
    q: float = 1.0,
    channel_dim: int = 1,
) -> jax.Array:
    """``rational`` in which every element of ``x`` sees coefficients ``c (1 + u)`` of its own, with
    ``u ~ U(-alpha, alpha)`` drawn for each element and coefficient.

    Args:
        key: Of ``jax.random``, or a whole number of 64 bits; equal keys draw equal noise.
            ``jax.random.key(k)`` draws what torch's units draw from the number k.
        alpha: Half width of the noise, in [0, 1]. The rest as for ``rational``.
    """
    spec = Spec(form, q, channel_dim, alpha)
    check_spec(spec)
    return apply(x, a, b, words_of(key), spec._replace(q=float(q), alpha=float(alpha)))


def apply(x: Any, a: Any, b: Any, key: Array | None, spec: Spec) -> jax.Array:
    """The same with a spec that is taken as checked, and a key in words."""
    x, a, b = (v if isinstance(v, jax.Array) else _read(v) for v in (x, a, b))
    _check(x, a, b, spec)
    channel_dim = spec.channel_dim % x.ndim if a.ndim == 2 else 0
    return primitives.forward(x, a, b, key, spec._replace(channel_dim=channel_dim))


def _read(v: Any) -> jax.Array:
    return jnp.asarray(v, float if isinstance(v, int | list | tuple) else None)


def _check(x: jax.Array, a: jax.Array, b: jax.Array, spec: Spec) -> None:
    if np.dtype(x.dtype).name not in DTYPES:
        known = ", ".join(DTYPES)
        raise TypeError(
            f"x has dtype {x.dtype}, padenet takes {known}. Try x.astype(jax.numpy.float32)."
        )
    if a.dtype != b.dtype or np.dtype(a.dtype).name not in DTYPES:
        raise TypeError(
            f"a and b must share one float dtype, got {a.dtype} and {b.dtype}. "
            "Convert them, e.g. a.astype(jax.numpy.float32)."
        )
    check_shapes(a.shape, b.shape, spec)
    if a.ndim == 2:
        check_groups(x.shape, a.shape[0], spec.channel_dim)
