"""Aims of a fit, and of units: which is taken, what it minimises, what it refuses."""

import copy
import pickle

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from fits import error_of
from numpy.polynomial import Polynomial, legendre
from torch import nn

import padenet
from padenet import PAU, RPAU, fit
from padenet.core.starting.aims import AIMS, reach
from padenet.core.starting.starts import STARTS, find_start
from padenet.core.starting.targets import TARGETS

pytest.importorskip("scipy", reason="fitting needs scipy")
pytestmark = pytest.mark.filterwarnings("ignore:padenet runs on plain PyTorch")

EACH = pytest.mark.parametrize("aim", AIMS)
TABLE = (np.linspace(-2, 2, 201), np.tanh(np.linspace(-2, 2, 201)))


def coefficients(unit):
    return unit.a.tolist(), unit.b.tolist()


def test_reach():
    assert reach((-3.0, 3.0)) == (-10.0, 10.0)
    assert reach((0.0, 6.0)) == pytest.approx((-7.0, 13.0))


def test_default_aim():
    """Wide where nothing but a function is given; an interval, a table and minimax mean near."""
    small = {"degrees": (3, 2)}
    assert fit(torch.tanh, **small) == fit(torch.tanh, **small, aim="wide")
    assert fit(torch.tanh, **small).aim == "wide"
    for options in (dict(interval=(-3, 3)), dict(norm="max")):
        found = fit(torch.tanh, **small, **options)
        assert found.aim == "near" and found == fit(torch.tanh, **small, **options, aim="near")
    assert fit(TABLE, **small).aim == "near"
    assert fit(torch.tanh, **small, interval=(-3, 3), aim="wide") == fit(torch.tanh, **small)


@pytest.mark.parametrize("interval", [(-3.0, 3.0), (-1.0, 2.0), (1.0, 3.0)])
def test_wide_is_weighted_least_squares_up_to_the_reach(interval):
    """With n = 0 the problem is linear: the mean inside, and 0.03 of each unit of length outside.

    exp is entire, so 200 Gauss nodes a panel leave no error but rounding.
    """
    first, last = reach(interval)
    x, w = [], []
    for low, high in ((first, interval[0]), interval, (interval[1], last)):
        t, v = legendre.leggauss(200)
        x.append((low + high) / 2 + (high - low) / 2 * t)
        w.append(v * (high - low) * (1.0 if low == interval[0] else 0.03))
    x, w = np.concatenate(x), np.concatenate(w)
    f = lambda x: torch.exp(x / 4)
    y = f(torch.tensor(x)).numpy()
    expected = Polynomial.fit(x, y, 4, w=np.sqrt(w)).convert().coef
    found = fit(f, (4, 0), interval=interval, aim="wide")
    assert found.a == pytest.approx(expected, rel=1e-8, abs=1e-10)


@pytest.mark.parametrize(
    "form, q", [("safe", 1.0), ("abs_terms", 1.0), ("free", 1.0), ("offset", 0.1)]
)
@pytest.mark.parametrize("degrees", [(5, 4), (4, 3), (3, 2)])
def test_wide_is_better_far_out_and_near_inside(form, q, degrees):
    wide, near = (fit(F.silu, degrees, form=form, q=q, aim=aim) for aim in ("wide", "near"))
    assert near.rms <= wide.rms * 1.001 and wide.far_error < near.far_error
    x = torch.linspace(-10, 10, 30011, dtype=torch.float64)
    a, b = (torch.tensor(c, dtype=torch.float64) for c in (wide.a, wide.b))
    error = (padenet.rational(x, a, b, form=form, q=q) - F.silu(x)).abs()
    assert error.max().item() == pytest.approx(wide.far_error, rel=1e-3)
    assert wide.rms == pytest.approx(error_of(wide, F.silu).square().mean().sqrt().item(), rel=1e-3)


@pytest.mark.parametrize(
    "form, q, degrees",
    [("safe", 1.0, d) for d in ((5, 4), (4, 3), (3, 2), (2, 1), (3, 5))]
    + [("safe", 0.1, (5, 4)), ("offset", 0.5, (5, 4)), ("abs_terms", 1.0, (5, 4))],
)
def test_steady_has_a_last_coefficient(form, q, degrees):
    """And no other search from there finds a better one with b_n >= 0.3 and |b_k| <= 10."""
    optimize = pytest.importorskip("scipy.optimize")
    found = fit(torch.tanh, degrees, form=form, q=q, aim="steady")
    assert found.b[-1] >= 0.3 * (1 - 1e-12) and max(map(abs, found.b)) <= 10 * (1 + 1e-12)
    x = torch.linspace(-3, 3, 2001, dtype=torch.float64)
    m = degrees[0] + 1

    def residual(c):
        a, b = torch.as_tensor(c[:m].copy()), torch.as_tensor(c[m:].copy())
        return (padenet.rational(x, a, b, form=form, q=q) - x.tanh()).numpy()

    high = np.array([np.inf] * m + [10.0] * len(found.b))
    low = -high
    low[-1] = 0.3
    start = np.clip([*found.a, *found.b], low, high)
    other = optimize.least_squares(residual, start, bounds=(low, high))
    assert np.sqrt(2 * other.cost / len(x)) >= 0.99 * found.rms
    table = fit(TABLE, degrees, form=form, q=q, aim="steady")
    assert table.b[-1] >= 0.3 * (1 - 1e-12)


def test_error_far_out():
    found = fit(F.gelu, (3, 2), aim="near")
    x = torch.linspace(-10, 10, 30011, dtype=torch.float64)
    a, b = (torch.tensor(c, dtype=torch.float64) for c in (found.a, found.b))
    error = (padenet.rational(x, a, b) - F.gelu(x)).abs().max().item()
    assert found.far_error == pytest.approx(error, rel=1e-3)
    assert fit(torch.log, (2, 1), interval=(0.5, 4)).far_error is None
    assert fit(np.log, (2, 1), interval=(0.5, 4)).far_error is None  # which warns of its arguments
    assert fit(TABLE, (2, 1)).far_error is None


def some(x):
    if (abs(x) > 5).any():
        raise RuntimeError("too far")
    return abs(x)


WRONG = [
    (dict(aim="wied"), ValueError, "unknown aim 'wied'. Did you mean 'wide'. Known: wide, near"),
    (dict(norm="max", aim="wide"), ValueError, "norm='max' goes with aim='near' only"),
    (dict(norm="max", aim="steady"), ValueError, "norm='max' goes with aim='near' only"),
    (dict(f=TABLE, aim="wide"), ValueError, "a table has none. .* aim='near' or 'steady'"),
    (dict(form="free", aim="steady"), ValueError, "form='free' has no |A|. .* aim='near'"),
    (dict(degrees=(3, 0), aim="steady"), ValueError, "the degrees leave none. .* aim='near'"),
    (
        dict(f=lambda x: 1 / (5 - x)),
        ValueError,
        r"f returns inf at x=5, beyond .*\[-10, 10\].* aim='near'",
    ),
    (dict(f=lambda x: torch.sqrt(4 - x)), ValueError, r"nan at x=4\S+, beyond .* aim='near'"),
    (dict(f=some), ValueError, r"f fails beyond .*\[-10, 10\]. Take aim='near'.*too far"),
    (dict(f=torch.log, interval=(1, 2), aim="wide"), ValueError, r"\[-0.166667, 3.16667\]"),
]


@pytest.mark.parametrize("options, error, message", WRONG, ids=[w[2] for w in WRONG])
def test_errors_name_the_fix(options, error, message):
    with pytest.raises(error, match=message):
        fit(**{"f": torch.relu, **options})


@pytest.mark.parametrize("f", [lambda x: 1 / (5 - x), lambda x: torch.sqrt(4 - x), some])
def test_near_takes_what_is_finite_on_the_interval_only(f):
    assert fit(f, (3, 2), aim="near").far_error is None


@EACH
@pytest.mark.parametrize("unit", [PAU, RPAU])
@pytest.mark.parametrize("name", ["gelu", "silu", "sin", "hardswish"])
def test_units_of_names(name, unit, aim):
    made, start = unit(name, aim=aim, dtype=torch.float64), find_start(name, aim)
    assert coefficients(made) == (list(start.a), list(start.b)) and made.aim == aim
    if start is STARTS.get(name):
        assert coefficients(unit(name, dtype=torch.float64)) == coefficients(made)


@EACH
@pytest.mark.parametrize("init", ["tanh", torch.tanh, nn.Tanh()], ids=lambda v: type(v).__name__)
def test_units_are_fitted_as_fit_does(init, aim):
    unit = PAU(init, aim=aim, degrees=(3, 2), form="offset", q=0.5, dtype=torch.float64)
    f = np.tanh if init == "tanh" else torch.tanh  # which round as they do
    found = fit(f, (3, 2), form="offset", q=0.5, aim=aim)
    assert coefficients(unit) == (list(found.a), list(found.b))


@pytest.mark.parametrize("name", ["gelu", "sin", "hardswish"])
def test_other_degrees_keep_the_aim_of_the_name(name):
    unit = PAU(name, degrees=(4, 3), dtype=torch.float64)
    found = fit(TARGETS[name], (4, 3), aim=STARTS[name].aim)
    assert coefficients(unit) == (list(found.a), list(found.b))


@pytest.mark.parametrize(
    "init, options, message",
    [
        (([0.0] * 6, [0.0] * 4), {}, "aim='near' is about names and functions; init is a pair"),
        (fit(torch.tanh, (3, 2)), dict(degrees=(3, 2)), "init is a Fit. Leave it out"),
        ("gelu", dict(aim="naer"), "unknown aim 'naer'. Did you mean 'near'"),
        (torch.tanh, dict(aim="naer"), "unknown aim 'naer'. Did you mean 'near'"),
        ("paper_tanh", {}, "start 'paper_tanh' has no aim 'near', only 'paper'.* start 'tanh'"),
        ("gelu", dict(aim="steady", form="free"), "form='free' has no |A|"),
    ],
)
def test_units_refuse(init, options, message):
    with pytest.raises(ValueError, match=message):
        PAU(init, **{"aim": "near", **options})


def test_repr_shows_an_aim_that_is_not_the_default():
    assert repr(PAU("gelu", aim="near")) == (
        "PAU(init='gelu', aim='near', degrees=(5, 4), form='safe')"
    )
    assert "aim" not in repr(PAU("gelu")) and "aim" not in repr(PAU("gelu", aim="wide"))
    assert "aim" not in repr(PAU("sin", aim="near"))
    assert "aim='wide'" in repr(PAU("sin", aim="wide"))
    assert "aim" not in repr(PAU(torch.tanh, degrees=(3, 2), aim="wide"))
    assert "init=given, aim='steady'" in repr(RPAU(torch.tanh, degrees=(3, 2), aim="steady"))


@pytest.mark.parametrize("unit", [PAU, RPAU])
@pytest.mark.parametrize("init", ["silu", lambda x: x.sin()], ids=["name", "function"])
@pytest.mark.parametrize("travel", [copy.deepcopy, lambda u: pickle.loads(pickle.dumps(u))])
def test_copies_start_again_alike(unit, init, travel):
    made = unit(init, aim="steady", degrees=(3, 2), groups=2)
    other = travel(made)
    with torch.no_grad():
        other.a.zero_(), other.b.zero_()
    other.reset_parameters()
    assert coefficients(other) == coefficients(made) and repr(other) == repr(made)
    assert list(made.state_dict()) == ["a", "b", "_extra_state"]


def test_units_that_were_pickled_before_there_were_aims():
    unit = PAU("gelu")
    del unit.__dict__["aim"]
    other = pickle.loads(pickle.dumps(unit))
    other.reset_parameters()
    assert coefficients(other) == coefficients(unit) and repr(other) == repr(PAU("gelu"))


def test_a_state_brings_its_aim():
    near, wide = PAU("gelu", aim="near"), PAU("gelu")
    wide.load_state_dict(near.state_dict())
    assert coefficients(wide) == coefficients(near)
    wide.reset_parameters()
    assert coefficients(wide) == coefficients(near)
