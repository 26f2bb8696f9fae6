"""``fit``: against known optima, the paper's columns and measurements of its own; units of fits."""

import math
import pickle
import sys
from functools import cache

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from fits import error_of, fitted
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import padenet
from padenet import PAU, fit
from padenet.core.starting.starts import STARTS, find_start
from padenet.core.starting.targets import TARGETS

pytest.importorskip("scipy", reason="fitting needs scipy")

# The best known fits of the safe form, (5, 4), [-3, 3]: least squares RMS and max, minimax max.
BEST = {
    "relu": (".00559", ".0339", ".01275"),
    "lrelu": (".00554", ".0336", ".01263"),
    "lrelu_0.20": (".00447", ".0271", ".01020"),
    "lrelu_0.25": (".00420", ".0254", ".00957"),
    "lrelu_0.30": (".00392", ".0237", ".00893"),
    "lrelu_-0.5": (".00574", ".0238", ".01159"),
    "sigmoid": ("1e-9", "5e-9", "4e-9"),
    "tanh": ("9e-7", "3.5e-6", "1.4e-6"),
    "swish": ("3e-7", "1.2e-6", "5e-7"),
}


def bounds(text: str) -> tuple[float, float]:
    """2 % around the numbers that are printed as ``text``."""
    mantissa, _, exponent = text.partition("e")
    last_digit = 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
    return 0.98 * (float(text) - last_digit / 2), 1.02 * (float(text) + last_digit / 2)


@pytest.mark.parametrize("name", BEST)
def test_least_squares_reaches_the_best_known(name):
    found = fitted(name)
    for figure, text in zip((found.rms, found.max_error), BEST[name], strict=False):
        low, high = bounds(text)
        assert low <= figure <= high
    # The ends of the grid, where errors are large, weigh more in 20001 points than in 60001.
    assert found.rms <= find_start(name, "near").rms * (1 + 5e-4)


@pytest.mark.parametrize("name", BEST)
def test_minimax_reaches_the_best_known(name):
    found = fitted(name, "max")
    assert found.max_error <= bounds(BEST[name][2])[1]
    if name != "sigmoid":  # whose known value was not the optimum
        assert found.max_error >= bounds(BEST[name][2])[0]
    error = error_of(found, TARGETS[name])
    assert error.abs().max() <= found.max_error * (1 + 1e-3)
    # A best approximation swings between its extremes at least as often as it has coefficients,
    # less those that symmetry fixes (b_1 = b_3 = 0, and a_1 or a_0).
    near = error[error.abs() > 0.98 * found.max_error].sign()
    assert 1 + int((near[1:] != near[:-1]).sum()) >= 9


@pytest.mark.parametrize("norm", ["rms", "max"])
@pytest.mark.parametrize("form, q", [("abs_terms", 1.0), ("free", 1.0), ("offset", 0.1)])
def test_errors_are_those_of_the_unit(form, q, norm):
    found = fitted("lrelu", norm, form, q)
    error = error_of(found, TARGETS["lrelu"])
    assert found.rms == pytest.approx(error.square().mean().sqrt().item(), rel=1e-3)
    assert found.max_error == pytest.approx(error.abs().max().item(), rel=1e-3)
    assert (found.form, found.q, found.interval) == (form, q, (-3.0, 3.0))
    assert (found.degrees, found.norm) == ((5, 4), norm)
    assert len(found.a) == 6 and len(found.b) == 4 + (form == "offset")


def test_abs_terms_is_the_papers_column():
    found, paper = fitted("lrelu", "rms", "abs_terms"), STARTS["paper_lrelu"]
    assert found.a == pytest.approx(paper.a, rel=2e-3)
    assert found.b == pytest.approx(paper.b, rel=2e-3)


def test_a_wider_form_is_no_worse():
    """offset holds safe, and safe holds every q."""
    assert fitted("lrelu", "max", "offset", 0.1).max_error <= fitted("lrelu", "max").max_error
    small = fitted("lrelu", q=0.1)
    assert small.rms == pytest.approx(fitted("lrelu").rms, rel=1e-4)
    assert small.b == pytest.approx([0.1 * v for v in fitted("lrelu").b], rel=1e-2)


@pytest.mark.parametrize("interval", [(-3, 3), (0.5, 4), (-1, 8), (100, 101)])
@pytest.mark.parametrize("norm", ["rms", "max"])
def test_free_has_no_pole(interval, norm):
    found = fit(lambda x: abs(x - 1) + (x > 2), (2, 3), interval=interval, form="free", norm=norm)
    roots = np.roots([*found.b[::-1], 1.0])
    real = roots.real[np.abs(roots.imag) < 1e-6 * np.abs(roots)]
    assert not ((real >= interval[0]) & (real <= interval[1])).any()
    assert math.isfinite(found.max_error)


@settings(max_examples=8)
@given(
    st.lists(st.floats(-3, 3), min_size=3, max_size=3),
    st.floats(0.1, 4),
    st.sampled_from(["safe", "free", "offset", "abs_terms"]),
)
def test_a_rational_function_is_found_again(a, b, form):
    found = fit(lambda x: (a[0] + a[1] * x + a[2] * x**2) / (1 + b * x**2), (2, 2), form=form)
    assert found.max_error <= 1e-7 * max(map(abs, a))


@cache
def best_constant(norm):
    return fit(torch.sigmoid, (0, 0), norm=norm, aim="near")


@pytest.mark.parametrize("form", ["safe", "abs_terms", "free", "offset"])
@pytest.mark.parametrize("norm", ["rms", "max"])
@pytest.mark.parametrize("degrees", [(0, 0), (3, 0), (0, 2), (1, 1), (2, 3)])
def test_small_degrees(degrees, form, norm):
    found = fit(torch.sigmoid, degrees, form=form, norm=norm, aim="near")
    m, n = degrees
    assert len(found.a) == m + 1 and len(found.b) == n + (form == "offset")
    constant = best_constant(norm)
    assert getattr(found, "rms" if norm == "rms" else "max_error") <= 1.001 * (
        constant.rms if norm == "rms" else constant.max_error
    )


def test_a_polynomial_by_least_squares_is_the_linear_solution():
    x, w = np.polynomial.legendre.leggauss(400)
    c = np.polynomial.legendre.legfit(x, np.exp(3 * x), 4, w=np.sqrt(w))
    expected = np.polynomial.Legendre(c, [-3, 3]).convert(kind=np.polynomial.Polynomial).coef
    assert fit(torch.exp, (4, 0), aim="near").a == pytest.approx(expected, rel=1e-9)


def test_minimax_of_a_known_problem():
    """x² by a line over [0, 1]: x - 1/8, error 1/8. Over [-1, 1] by a constant: 1/2."""
    found = fit(lambda x: x * x, (1, 0), interval=(0, 1), norm="max")
    assert found.a == pytest.approx((-0.125, 1.0), abs=1e-6)
    assert found.max_error == pytest.approx(0.125, rel=1e-6)
    assert fit(lambda x: x * x, (0, 0), interval=(-1, 1), norm="max").a == pytest.approx((0.5,))


def test_same_result_every_time():
    assert fit(F.mish, (3, 2), norm="max") == fit(F.mish, (3, 2), norm="max")


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([0.25]))
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return F.prelu(self.drop(x), self.weight)


def test_kinds_of_functions():
    """torch, numpy, a module in training, a float32 one: all the same function."""
    module = Scaled()
    expected = fit(TARGETS["lrelu_0.25"], (3, 2))
    assert fit(lambda x: np.where(x > 0, x, 0.25 * x), (3, 2)) == expected
    found = fit(module, (3, 2))
    assert found.a == pytest.approx(expected.a, rel=1e-4)
    assert module.training and module.drop.training and module.weight.dtype == torch.float32
    assert fit(np.tanh, (3, 2)).b == pytest.approx(fit(torch.tanh, (3, 2)).b, rel=1e-6)
    in_place = fit(torch.relu_, (3, 2))
    assert in_place == fit(torch.relu, (3, 2))


@pytest.mark.parametrize("norm", ["rms", "max"])
def test_tables(norm):
    rng = np.random.default_rng(0)
    x = rng.permutation(np.linspace(-2, 2, 1501))
    found = fit((x, np.tanh(x)), (3, 2), norm=norm)
    assert found.interval == (-2.0, 2.0)
    expected = fit(np.tanh, (3, 2), interval=(-2, 2), norm=norm)
    assert found.a == pytest.approx(expected.a, rel=0.02, abs=1e-5)
    error = error_of(found, torch.tanh)
    assert found.max_error == pytest.approx(error.abs().max().item(), rel=1e-2)
    part = fit((torch.tensor(x), torch.tensor(x).tanh()), (3, 2), interval=(-1, 1), norm=norm)
    assert part.interval == (-1.0, 1.0) and part.max_error < found.max_error


WRONG = [
    (dict(f=torch.log), ValueError, r"f returns nan at x=-\S+, in the interval"),
    (dict(f=lambda x: 1 / x), ValueError, "f returns inf at x=0, in the interval"),
    (dict(f=lambda x: x.sum()), ValueError, r"f returns shape \(\) for x of shape .* elementwise"),
    (dict(f=math.tanh), TypeError, "takes neither a tensor nor an array.*numpy.vectorize"),
    (dict(f=lambda x: "?"), TypeError, "takes neither a tensor nor an array"),
    (dict(f=3), TypeError, "f is int, neither a function nor a table"),
    (dict(f="relu"), TypeError, "f is str, neither a function nor a table"),
    (dict(f=([1.0, 2.0], [1.0])), ValueError, r"x of shape \(2,\) and y of shape \(1,\)"),
    (dict(f=(np.eye(3), np.eye(3))), ValueError, "must be one-dimensional"),
    (dict(f=([1.0, 2.0], [1.0, 2.0])), ValueError, "2 distinct x .* 10 coefficients"),
    (dict(f=([math.inf, 2.0], [1.0, 2.0])), ValueError, r"x\[0\]=inf"),
    (dict(f=(range(20), [math.nan] * 20)), ValueError, "the table f has nan at x=0"),
    (dict(interval=(3, -3)), ValueError, r"interval=\(3, -3\) must be finite with low < high"),
    (dict(interval=(1, 1)), ValueError, "must be finite with low < high"),
    (dict(interval=(0, math.inf)), ValueError, "must be finite"),
    (dict(interval=(0, math.nan)), ValueError, "must be finite"),
    (dict(interval=3), TypeError, r"interval=3 must be a pair \(low, high\)"),
    (dict(norm="l2"), ValueError, "unknown norm 'l2'. Known: rms, max"),
    (dict(form="unsafe"), ValueError, "unknown form 'unsafe'. Known: safe"),
    (dict(q=0), ValueError, r"q=0 must be in \[1e-06, 1\]"),
    (dict(q=0.5, form="free"), ValueError, "q=0.5 has no meaning"),
    (dict(degrees=(5, -1)), ValueError, r"degrees=\(5, -1\) must be whole numbers"),
    (dict(degrees=(2.5, 1)), ValueError, "must be whole numbers"),
    (dict(degrees=5), TypeError, "degrees=5 must be a pair"),
]


@pytest.mark.parametrize("options, error, message", WRONG, ids=[w[2] for w in WRONG])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_errors_name_the_value(options, error, message):
    with pytest.raises(error, match=message):
        fit(**{"f": torch.relu, **options})


def test_without_scipy_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    with pytest.raises(ImportError, match=r"scipy is needed .* pip install 'padenet\[fit\]'"):
        fit(torch.relu)


def coefficients(unit):
    return unit.a.tolist(), unit.b.tolist()


def test_unit_from_a_function():
    calls = []

    def f(x):
        calls.append(1)
        return torch.tanh(x)

    units = [PAU(f, degrees=(3, 2), form=form, dtype=torch.float64) for form in ("safe", "free")]
    for unit in units:
        found = fit(f, (3, 2), form=unit.form)
        assert coefficients(unit) == (list(found.a), list(found.b))
    count = len(calls)
    again = PAU(f, degrees=(3, 2), groups=4)  # remembered
    again.reset_parameters()
    assert len(calls) == count and again.a.shape == (4, 4)
    x = torch.linspace(-3, 3, 101)
    unit = PAU(F.gelu, aim="near")
    assert (unit(x) - F.gelu(x)).abs().max() < 0.001


def test_unit_from_a_fit():
    found = fitted("lrelu", "max", "offset", 0.1)
    unit = PAU(found, form="offset", q=0.1, dtype=torch.float64)
    assert coefficients(unit) == (list(found.a), list(found.b))
    with pytest.raises(ValueError, match=r"init is a fit with .* form='offset', q=0.1, but"):
        PAU(found)


@pytest.mark.parametrize("options", [dict(degrees=(3, 2)), dict(form="abs_terms"), dict(q=0.5)])
def test_names_are_fitted_to_other_degrees_and_forms(options):
    unit = PAU("lrelu", aim="near", **options)
    x = torch.linspace(-3, 3, 601)
    assert (unit(x) - F.leaky_relu(x)).square().mean().sqrt() < 0.04


def test_unit_refuses():
    with pytest.raises(ValueError, match=r"'paper_relu' was made for .* use the start 'relu'"):
        PAU("paper_relu")


@pytest.mark.parametrize("function", [nn.Tanh(), lambda x: torch.tanh(x), np.tanh])
def test_a_unit_keeps_the_coefficients_of_a_function(function):
    """So it can be pickled and started again, and a module is no part of it."""
    unit = PAU(function, aim="near")
    assert not list(unit.children())
    copy = pickle.loads(pickle.dumps(unit))
    with torch.no_grad():
        copy.a.zero_()
    copy.reset_parameters()
    assert coefficients(copy) == coefficients(unit)
    x = torch.linspace(-3, 3, 61)
    assert (copy(x) - x.tanh()).abs().max() < 1e-5


def test_targets_are_those_of_the_starts():
    assert set(TARGETS) == {start.target for start in STARTS.values()}
    x = torch.linspace(-3, 3, 60001, dtype=torch.float64)
    for name, f in TARGETS.items():
        start = STARTS[name]
        a, b = (torch.tensor(c, dtype=torch.float64) for c in (start.a, start.b))
        rms = (
            (padenet.rational(x, a, b) - torch.from_numpy(f(x.numpy())))
            .square()
            .mean()
            .sqrt()
            .item()
        )
        assert rms == pytest.approx(start.rms, rel=1e-4, abs=1e-12)
