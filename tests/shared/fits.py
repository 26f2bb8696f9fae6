"""Fits that several tests need, and how far they are from their targets."""

import functools
from fractions import Fraction

import torch
from hypothesis import strategies as st

import padenet
from padenet import Fit, fit
from padenet.core.fitting.samples import call
from padenet.core.starting.targets import TARGETS


@functools.cache
def fitted(
    name: str, norm: str = "rms", form: str = "safe", q: float = 1.0, aim: str = "near"
) -> Fit:
    return fit(TARGETS[name], norm=norm, form=form, q=q, aim=aim)


def error_of(found: Fit, f, points: int = 30011) -> torch.Tensor:
    """F - f at points of its own, through the public function."""
    x = torch.linspace(*found.interval, points, dtype=torch.float64)
    a, b = (torch.tensor(c, dtype=torch.float64) for c in (found.a, found.b))
    return padenet.rational(x, a, b, form=found.form, q=found.q) - torch.from_numpy(
        call(f, x.numpy())
    )


small = st.fractions(-5, 5, max_denominator=7)


def series(name: str, terms: int) -> list[Fraction]:
    """Taylor coefficients at 0, from s' = s - s², t' = 1 - t² and swish = x s."""
    if name == "swish":
        return [Fraction(0), *series("sigmoid", terms - 1)]
    c = [Fraction(1, 2) if name == "sigmoid" else Fraction(0)]
    for k in range(terms - 1):
        square = sum(c[i] * c[k - i] for i in range(k + 1))
        rest = c[k] if name == "sigmoid" else Fraction(int(k == 0))
        c.append((rest - square) / (k + 1))
    return c
