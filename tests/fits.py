"""Fits that several tests need, and how far they are from their targets."""

import functools

import torch
from hypothesis import strategies as st

import padenet
from padenet import Fit, fit
from padenet.fit import TARGETS


@functools.cache
def fitted(name: str, norm: str = "rms", form: str = "safe", q: float = 1.0) -> Fit:
    return fit(TARGETS[name], norm=norm, form=form, q=q)


def error_of(found: Fit, f, points: int = 30011) -> torch.Tensor:
    """F - f at points of its own, through the public function."""
    x = torch.linspace(*found.interval, points, dtype=torch.float64)
    a, b = (torch.tensor(c, dtype=torch.float64) for c in (found.a, found.b))
    return padenet.rational(x, a, b, form=found.form, q=found.q) - f(x)


small = st.fractions(-5, 5, max_denominator=7)
