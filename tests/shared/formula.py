r"""F(x) = P(x) / Q(x) by sums of powers, for torch's own autograd to differentiate in float64.

    P = Σ_j a_j x^j,   A = Σ_k b_k x^k,   Q = q + |A|, 1 + Σ_k |b_k x^k| or 1 + A

``b[0]`` is b_1, except in ``offset``, where it is b_0.
"""

from typing import NamedTuple

import torch


class Case(NamedTuple):
    form: str = "safe"
    q: float = 1.0
    groups: int = 1
    degrees: tuple[int, int] = (5, 4)
    channel_dim: int = 1

    @property
    def options(self):
        return {"form": self.form, "q": self.q, "channel_dim": self.channel_dim}


CASES = {
    "safe": Case(),
    "safe q groups": Case("safe", q=0.1, groups=2, degrees=(3, 2)),
    "abs_terms groups last": Case("abs_terms", groups=2, degrees=(2, 3), channel_dim=-1),
    "free": Case("free", degrees=(2, 3)),
    "offset channels": Case("offset", q=0.5, groups=4, degrees=(3, 2)),
}


def problem(case, shape=(3, 4), dtype=torch.float64, seed=0):
    """``x``, ``a``, ``b``, none of them near a pole of ``free``."""
    gen = torch.Generator().manual_seed(seed)
    m, n = case.degrees
    lead = () if case.groups == 1 else (case.groups,)
    x = torch.randn(shape, generator=gen, dtype=torch.float64).clamp(-2, 2)
    a = torch.randn(*lead, m + 1, generator=gen, dtype=torch.float64)
    b = torch.randn(*lead, n + (case.form == "offset"), generator=gen, dtype=torch.float64)
    b = 0.02 * b if case.form == "free" else 0.5 * b
    return [t.to(dtype) for t in (x, a, b)]


def formula(x, a, b, *, form="safe", q=1.0, channel_dim=1):
    """``a``, ``b`` as for ``rational``, or with the coefficients of each element last."""
    if a.ndim == 2 and x.ndim != 1:
        each = x.shape[channel_dim] // a.shape[0]
        y = formula_of_each(
            x.movedim(channel_dim, -1),
            a.repeat_interleave(each, 0),
            b.repeat_interleave(each, 0),
            form,
            q,
        )
        return y.movedim(-1, channel_dim)
    return formula_of_each(x, a, b, form, q)


def formula_of_each(x, a, b, form, q):
    """Coefficients of shape ``(..., count)`` whose leading dims broadcast against ``x``."""
    first = 0 if form == "offset" else 1
    P = sum(a[..., j] * x**j for j in range(a.shape[-1]))
    terms = [b[..., k] * x ** (k + first) for k in range(b.shape[-1])]
    if form == "abs_terms":
        return P / (1 + sum(t.abs() for t in terms))
    return P / (1 + sum(terms) if form == "free" else q + abs(sum(terms)))


def assert_near(actual, expected, roundings=2048):
    """Equal but for ``roundings`` relative errors of one unit of the largest entry."""
    if isinstance(expected, (tuple, list)):
        assert len(actual) == len(expected)
        for u, v in zip(actual, expected, strict=True):
            assert_near(u, v, roundings)
        return
    assert actual.shape == expected.shape
    actual, expected, unit = actual.detach(), expected.detach(), torch.finfo(actual.dtype).eps
    room = roundings * unit * float(expected.abs().max()) if expected.numel() else 0
    torch.testing.assert_close(actual.double(), expected.double(), rtol=0, atol=room)
