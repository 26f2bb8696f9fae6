"""Forms are data: a form that is put into the table works everywhere, with no other change."""

import itertools

import numpy as np
import pytest
import torch
from backends import running_on

import padenet
from padenet.core.arrays import evaluate
from padenet.core.forms import FORMS, Form, Spec

CORNERS = [Form(*flags) for flags in itertools.product([False, True], repeat=3)]
BACKENDS = ["native", "gpu", "plain", "reference"]


def by_definition(x, a, b, form, q):
    """Sums of powers, for autograd."""
    terms = [c * x**k for k, c in enumerate(b, 1 - form.constant)]
    A = sum(t.abs() for t in terms) if form.per_term else sum(terms)
    return sum(c * x**j for j, c in enumerate(a)) / (q + (A.abs() if form.around else A))


def problem(form):
    x = torch.linspace(-1.7, 1.9, 24, dtype=torch.float64).reshape(4, 6)
    x[0, 0] = 0.0
    a = torch.tensor([0.3, 1.0, -0.4, 0.2, 0.1, 0.05], dtype=torch.float64)
    b = torch.tensor([0.11, 0.3, -0.2, 0.04, 0.15], dtype=torch.float64)
    b = b[1 - form.constant :]
    return x, a, b * 0.2 if form.has_poles else b


def test_the_four_forms_are_corners_of_the_cube():
    assert {name: form.denominator for name, form in FORMS.items()} == {
        "safe": "q + |b_1 x + ... + b_n x^n|",
        "abs_terms": "1 + |b_1 x| + ... + |b_n x^n|",
        "free": "1 + b_1 x + ... + b_n x^n",
        "offset": "q + |b_0 + b_1 x + ... + b_n x^n|",
    }
    assert [form.has_poles for form in FORMS.values()] == [False, False, True, False]
    assert sorted({form.code for form in CORNERS}) == list(range(8))


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("form", CORNERS, ids=lambda form: f"{form.code:03b}")
def test_every_corner_computes(form, name, monkeypatch):
    """Values and gradients, to a few roundings: a sum of 6 terms each of size below 12."""
    monkeypatch.setitem(FORMS, "corner", form)
    dtype = torch.float32 if name == "gpu" else torch.float64
    q = 0.5 if form.around else 1.0
    x, a, b = (t.to(dtype).requires_grad_() for t in problem(form))
    with running_on(name):
        y = padenet.rational(x, a, b, form="corner", q=q)
        got = y, *torch.autograd.grad(y.sum(), (x, a, b))
    exact = [t.detach().double().requires_grad_() for t in (x, a, b)]
    y = by_definition(*exact, form, q)
    want = y, *torch.autograd.grad(y.sum(), exact)
    eps = torch.finfo(dtype).eps
    for g, w in zip(got, want, strict=True):
        torch.testing.assert_close(g.double(), w, rtol=24 * 16 * eps, atol=24 * 16 * eps)


@pytest.mark.parametrize("form", CORNERS, ids=lambda form: f"{form.code:03b}")
def test_every_corner_is_described_printed_fitted_and_exported(form, monkeypatch):
    monkeypatch.setitem(FORMS, "corner", form)
    x, a, b = problem(form)
    y = evaluate(x, a, b, Spec("corner"))
    source = {}
    exec(padenet.PAU((a, b), degrees=(5, 4), form="corner").double().formula("python"), source)
    np.testing.assert_allclose([source["pau"](float(v)) for v in x.flatten()], y.ravel(), 1e-6)
    facts = padenet.describe((a, b), form="corner", interval=(-1.5, 1.5))
    t = np.linspace(-1.5, 1.5, 3001)
    steep = np.abs(np.gradient(evaluate(t, a, b, Spec("corner")), t))
    assert steep.max() == pytest.approx(facts.lipschitz, rel=1e-2)
    pytest.importorskip("scipy")
    found = padenet.fit(np.tanh, (3, 2), form="corner")
    assert found.max_error < 0.05
    unit = padenet.PAU(found, degrees=(3, 2), form="corner").eval()
    program = torch.export.export(padenet.freeze(unit), (x.float(),)).module()
    torch.testing.assert_close(program(x.float()), unit(x.float()))
