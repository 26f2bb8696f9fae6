"""The judge is judged twice: by autograd on the naive formula, and by MPFR."""

import pytest
import torch
from exact import Exact, Near, assert_near, exact, excess

from padenet.core.forms import FORMS, Spec
from padenet.torch import reference

DEGREES = [(0, 0), (3, 0), (0, 3), (5, 4), (4, 5), (7, 6), (12, 12)]


def naive(x, a, b, spec):
    """The formula with powers written out; one unit, or one per channel in the last dim."""
    power = lambda k: x**k
    P = sum(a[..., j] * power(j) for j in range(a.shape[-1])) + 0 * x
    terms = [b[..., i] * power(i + 1 - spec.constant) for i in range(b.shape[-1])]
    if spec.form == "abs_terms":
        return P / (1 + sum(t.abs() for t in terms))
    A = sum(terms) + 0 * x
    return P / (1 + A if spec.form == "free" else spec.q + A.abs())


def draw(m, n, spec, gen, groups=None, shape=(50, 4), dtype=torch.float64):
    lead = () if groups is None else (groups,)
    make = lambda *s: torch.randn(*s, generator=gen, dtype=torch.float64).to(dtype)
    x, dy = make(*shape), make(*shape)
    a, b = make(*lead, m + 1), make(*lead, n + spec.constant)
    return dy, *(t.requires_grad_() for t in (x, a, b))


@pytest.mark.parametrize("groups", [None, 1, 2, 4])
@pytest.mark.parametrize("m, n", DEGREES)
@pytest.mark.parametrize("form", FORMS)
def test_hand_gradients_equal_autograd(form, m, n, groups, gen):
    spec = Spec(form, q=0.1 if form in ("safe", "offset") else 1.0, channel_dim=-1)
    dy, x, a, b = draw(m, n, spec, gen, groups)
    channels = lambda c: c if groups is None else c.repeat_interleave(4 // groups, 0)

    y = naive(x, channels(a), channels(b), spec)
    expected = torch.autograd.grad(y, (x, a, b), dy, allow_unused=True, materialize_grads=True)
    torch.testing.assert_close(reference.forward(x, a, b, None, spec), y)
    got = reference.backward(dy, x.detach(), a.detach(), b.detach(), None, spec)
    for e, g in zip(expected, got, strict=True):
        torch.testing.assert_close(g, e)


@pytest.mark.parametrize("key", [None, 7], ids=["plain", "noise"])
@pytest.mark.parametrize("form", FORMS)
def test_backward_and_jvp_equal_autograd_of_forward(form, key, gen):
    """With noise as well, whose factor is a constant; and on both sides of the limit."""
    spec = Spec(form, channel_dim=-1, alpha=0.0 if key is None else 0.1)
    key = None if key is None else torch.tensor(key)
    dy, x, a, b = draw(5, 4, spec, gen, groups=2)
    with torch.no_grad():
        x[::7] *= 2.0 ** (480 // 5)

    y = reference.forward(x, a, b, key, spec)
    expected = torch.autograd.grad(y, (x, a, b), dy, create_graph=True)
    got = reference.backward(dy, x.detach(), a.detach(), b.detach(), key, spec)
    for e, g in zip(expected, got, strict=True):
        torch.testing.assert_close(g, e)

    tangents = [torch.randn(t.shape, generator=gen, dtype=t.dtype) for t in (x, a, b)]
    dot = sum((e * t).sum() for e, t in zip(expected, tangents, strict=True))
    jvp = reference.jvp(*tangents, x.detach(), a.detach(), b.detach(), key, spec)
    torch.testing.assert_close((dy * jvp).sum(), dot)
    none = reference.jvp(None, None, None, x.detach(), a.detach(), b.detach(), key, spec)
    assert not none.any()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("m, n", DEGREES)
@pytest.mark.parametrize("form", FORMS)
def test_reference_is_right_to_the_last_roundings(form, m, n, dtype, gen):
    """On both sides of the limit."""
    spec = Spec(form)
    dy, x, a, b = (t.detach() for t in draw(m, n, spec, gen, shape=(12,), dtype=dtype))
    x[::2] *= 2.0 ** (2 + (480 if dtype == torch.float64 else 60) // max(m, n, 1))
    got = reference.forward(x, a, b, None, spec), *reference.backward(dy, x, a, b, None, spec)
    want = exact(dy, x, a, b, form=form, digits="mpfr")
    for name, g, w in zip(("y", "dx", "da", "db"), got, want, strict=True):
        assert_near(g, w, name)


@pytest.mark.parametrize("form", FORMS)
def test_both_digits_agree(form, gen):
    """float64 judges float32 as MPFR would, where powers fit into it."""
    dy, x, a, b = (
        t.detach() for t in draw(5, 4, Spec(form), gen, shape=(20,), dtype=torch.float32)
    )
    for v, w in zip(
        exact(dy, x, a, b, form=form), exact(dy, x, a, b, form=form, digits="mpfr"), strict=True
    ):
        assert (abs(v.v - w.v) <= w.e * 1e-6).all() and (abs(v.e - w.e) <= w.e * 1e-3).all()


def test_the_bound_knows_where_a_sign_is_uncertain():
    """A = x - x^2: a float32 next to 1 may see either sign, 1.5 may not, and x = 0 is exact."""
    a, b = torch.ones(1), torch.tensor([1.0, -1.0])
    unit = Exact(torch.tensor([1 + 2.0**-23, 1.5, 0.0]), a, b)
    assert list(unit.s.v) == [-1, -1, 0] and list(unit.s.e) == [2, 0, 0]


def test_the_bound_grows_towards_a_pole():
    """1 - x: the error of Q is a few eps of 1, so F is worthless within that of x = 1."""
    a, b = torch.ones(1), torch.tensor([-1.0])
    e = Exact(torch.tensor([0.5, 1 - 2.0**-10, 1.0]), a, b, form="free").y.e
    assert e[0] < 1e-5 and 1e-2 < e[1] < 10 and e[2] == float("inf")


@pytest.mark.parametrize(
    "value, v, right",
    [
        (1.0, 1.0, True),
        (1.0, 1.0 + 2.0**-20, False),
        (float("nan"), 1.0, False),
        (float("inf"), 1.0, False),
        (float("inf"), 2.0**128, True),
        (float("-inf"), 2.0**128, False),
        (torch.finfo(torch.float32).max, 2.0**129, False),
    ],
)
def test_excess_accepts_only_what_is_right(value, v, right):
    want = Near(torch.tensor([v], dtype=torch.float64).numpy(), 0.0)
    assert (excess(torch.tensor([value]), want) <= 1).all() == right
