"""``describe`` against closed cases, and against dense samples for random coefficients."""

import math

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

import padenet
from padenet.core.starting.starts import STARTS, STARTS_BY_AIM, find_start
from padenet.core.starting.targets import TARGETS

pytestmark = pytest.mark.filterwarnings("ignore:padenet runs on plain PyTorch")

FORMS = ["safe", "abs_terms", "free", "offset"]
DENSE = 200_001


def exact(*values):
    return (torch.tensor(np.array(v, float)) for v in values)


def curve(a, b, form, q, x):
    x, a, b = exact(x, a, b)
    return padenet.rational(x, a, b, form=form, q=q).numpy()


def slopes(a, b, form, q, x):
    """F' at x, by the hand-derived gradient."""
    x, a, b = exact(x, a, b)
    x.requires_grad_()
    padenet.rational(x, a, b, form=form, q=q).sum().backward()
    return x.grad.numpy()


@pytest.mark.parametrize(
    "name, aim", [(name, aim) for name, aims in STARTS_BY_AIM.items() for aim in aims]
)
def test_starts_are_what_they_say(name, aim):
    start = find_start(name, aim)
    facts = padenet.describe(start)
    assert facts.closest == {"relu6": "relu"}.get(start.target, start.target)
    assert facts.distance == pytest.approx(start.rms, rel=1e-2, abs=1e-14)
    assert facts.form == start.form and facts.degrees == start.degrees
    assert facts.at_zero == pytest.approx(start.a[0])
    assert facts.left == facts.right == (1, pytest.approx(start.a[5] / abs(start.b[3])))
    assert facts.gain == padenet.gain(start)
    assert facts.poles == ()
    if start is STARTS[name]:
        assert padenet.describe(name) == facts


def test_swish_and_sine():
    facts = padenet.describe(find_start("swish", "near"))
    (low,) = facts.minima
    assert low.x == pytest.approx(-1.2784645, abs=1e-4)  # where x e^-x = -1 - e^-x
    assert low.y == pytest.approx(-0.2784645, abs=1e-5)
    assert facts.maxima == () and not facts.is_monotone
    assert facts.lipschitz == pytest.approx(1.09983932, abs=1e-4)  # at x = 2.3993573
    facts = padenet.describe("sin")
    assert [p.x for p in facts.minima] == [pytest.approx(-math.pi / 2, abs=1e-4)]
    assert [p.x for p in facts.maxima] == [pytest.approx(math.pi / 2, abs=1e-4)]
    assert facts.zeros == (0.0,)
    assert facts.lipschitz == pytest.approx(1, abs=1e-4)


def test_kink_of_safe():
    """1 / (1 + |x|): a kink and a maximum at 0, slopes 1 and -1 beside it, though F'(0) = 0."""
    facts = padenet.describe(([1.0], [1.0]))
    assert facts.kinks == (0.0,)
    assert facts.maxima == ((0.0, 1.0),) and facts.minima == ()
    assert facts.lipschitz == 1
    assert (facts.left, facts.right) == ((-1, -1.0), (-1, 1.0))
    assert facts.zeros == ()
    assert slopes([1.0], [1.0], "safe", 1.0, [0.0]) == 0


def test_kink_that_is_none():
    """x / (1 + |x|) has slope 1 on both sides of 0, and tends to -1 and 1."""
    facts = padenet.describe(([0.0, 1.0], [1.0]))
    assert facts.kinks == () and facts.is_monotone
    assert facts.lipschitz == 1 and facts.zeros == (0.0,)
    assert (facts.left, facts.right) == ((0, -1.0), (0, 1.0))
    assert str(facts.right) == "1"


def test_kinks_of_offset_and_abs_terms():
    """|x² - 1| in the denominator of offset: kinks at -1 and 1, maxima too, 1/q high."""
    facts = padenet.describe(([1.0], [-1.0, 0.0, 1.0]), form="offset", q=0.5)
    assert facts.kinks == pytest.approx((-1, 1)) and len(facts.maxima) == 2
    assert [p.y for p in facts.maxima] == pytest.approx([2, 2])
    assert facts.minima == ((0.0, pytest.approx(1 / 1.5)),)
    assert facts.lipschitz == pytest.approx(2 / 0.25)  # |A'| / q² at the kink
    assert facts.at_zero == pytest.approx(1 / 1.5)
    facts = padenet.describe(([1.0], [-1.0, 2.0]), form="abs_terms")
    assert facts.kinks == (0.0,) and facts.maxima == ((0.0, 1.0),)
    assert (facts.left, facts.right) == ((-2, 0.5), (-2, 0.5))


def test_denominator_that_touches_zero():
    """A = x² (x - 1)²: no kink, though A is 0 at 0 and 1."""
    b = np.poly([0, 0, 1, 1])[::-1][1:]
    facts = padenet.describe(([0.0, 1.0], b), interval=(-2, 2))
    assert facts.kinks == ()
    x = np.linspace(-2, 2, DENSE)
    assert facts.lipschitz == pytest.approx(np.abs(slopes([0.0, 1.0], b, "safe", 1.0, x)).max())


def test_poles():
    """1 / (1 - x²): poles at -1 and 1, one minimum between, none across a pole."""
    facts = padenet.describe(([1.0], [0.0, -1.0]), form="free")
    assert facts.poles == pytest.approx((-1, 1)) and facts.lipschitz == math.inf
    assert facts.minima == ((0.0, 1.0),) and facts.maxima == ()
    assert facts.gain is None and not facts.is_monotone
    assert padenet.describe(([1.0], [0.0, -1.0]), form="free", interval=(-0.5, 0.5)).poles == ()
    double = padenet.describe(([1.0], [-2.0, 1.0]), form="free")
    assert double.poles == pytest.approx((1,))
    removable = padenet.describe(([1.0, -1.0], [-1.0]), form="free")  # (1 - x) / (1 - x)
    assert removable.poles == () and removable.zeros == () and removable.lipschitz == 0


def test_polynomials():
    facts = padenet.describe(([0.0, 0.0, 1.0], []), q=0.5)
    assert facts.left == facts.right == (2, 2.0) and str(facts.left) == "2 x^2"
    assert facts.zeros == (0.0,) and facts.minima == ((0.0, 0.0),)
    assert facts.lipschitz == 12
    cubic = padenet.describe((np.poly([-2, 0.5, 0.5])[::-1], []))  # touches zero at 0.5
    assert cubic.zeros == pytest.approx((-2, 0.5), abs=1e-6)
    assert padenet.describe(([-1.0, 0.0, 1.0], []), interval=(-1, 1)).zeros == (-1.0, 1.0)


def test_flat_functions():
    zero = padenet.describe(([0.0, 0.0], [1.0]))
    assert zero.zeros == () and zero.lipschitz == 0 and zero.gain is None
    assert zero.left == zero.right == (0, 0.0)
    level = padenet.describe(([0.3, 0.0, 0.1, 0.0, 0.7], [0.0, 1 / 3, 0.0, 7 / 3]))  # 0.3 Q / Q
    assert level.minima == level.maxima == () and level.lipschitz < 1e-15
    assert level.distance > 0


NUMBER = st.floats(-4, 4).map(lambda v: round(v, 3))


@settings(max_examples=120, deadline=None)
@given(
    st.lists(NUMBER, min_size=1, max_size=6),
    st.lists(NUMBER, min_size=1, max_size=5),
    st.sampled_from(FORMS),
    st.sampled_from([0.25, 1.0]),
)
@example([1.0, 2.0], [0.0], "safe", 1.0)
def test_dense_samples_find_no_more(a, b, form, q):
    """No sample exceeds the Lipschitz constant, and changes of sign and direction are all found.

    On a grid of step h a peak of height H and curvature F''' is missed by at most F''' h² / 8.
    The grid finds a turn if it lies more than h from others, so only those count.
    """
    q = q if form in ("safe", "offset") else 1.0
    facts = padenet.describe((a, b), form=form, q=q, interval=(-2.5, 3))
    x = np.linspace(-2.5, 3, DENSE)
    if facts.poles:
        assert facts.lipschitz == math.inf
        bottom = np.polynomial.polynomial.polyval(np.array(facts.poles), [1.0, *b])
        size = np.polynomial.polynomial.polyval(np.abs(facts.poles), np.abs([1.0, *b]))
        assert (np.abs(bottom) <= 1e-10 * size).all()
        return
    y, dy = curve(a, b, form, q, x), slopes(a, b, form, q, x)
    if form == "free" and not np.abs(y).max() < 1e6:
        return  # all but a pole: the samples themselves are uncertain
    steepest = np.abs(dy).max()
    assert steepest <= facts.lipschitz * (1 + 1e-9) + 1e-12
    bend = np.abs(np.diff(dy))  # a peak between two samples is no higher than this above them
    assert facts.lipschitz <= steepest + bend.max() + 1e-9
    h = x[1] - x[0]
    sure = lambda v: np.abs(v) > 1e-9 * np.abs(v).max(initial=1e-300)
    for found, sampled in (
        (facts.zeros, y),
        ([p.x for p in (*facts.minima, *facts.maxima)], dy),
    ):
        i = np.flatnonzero(
            (sampled[:-1] * sampled[1:] < 0) & sure(sampled[:-1]) & sure(sampled[1:])
        )
        for left, right in zip(x[i], x[i + 1], strict=True):
            assert any(left - h <= v <= right + h for v in found), (left, found)
    for point in facts.minima:
        near = np.abs(x - point.x) < 1.5 * h
        assert point.y <= y[near].min() + 1e-12 * np.abs(y).max()
        assert point.y == pytest.approx(curve(a, b, form, q, [point.x])[0], rel=1e-9, abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.lists(NUMBER, min_size=2, max_size=6), st.lists(NUMBER, min_size=1, max_size=4))
def test_tails(a, b):
    facts = padenet.describe((a, b))
    for side, tail in ((-1, facts.left), (1, facts.right)):
        x = side * 1e9
        if tail.factor:
            expected = tail.factor * x**tail.power
            assert curve(a, b, "safe", 1.0, [x])[0] == pytest.approx(expected, rel=1e-4)


def test_units_groups_and_devices():
    unit = padenet.PAU("gelu", groups=3)
    with torch.no_grad():
        unit.a[1] *= 2
    assert padenet.describe(unit, group=0) == padenet.describe(unit, group=2)
    assert padenet.describe(unit, group=1).lipschitz == pytest.approx(
        2 * padenet.describe(unit, group=0).lipschitz
    )
    assert padenet.describe(unit.half(), group=0).closest == "gelu"
    found = padenet.Fit((0.0, 1.0), (1.0,), 0, 0, "safe", 0.5, (-3, 3), (1, 1), "rms")
    assert padenet.describe(found).q == 0.5
    wide = padenet.describe("gelu", interval=(-10, 10))
    assert wide.interval == (-10, 10) and wide.closest in TARGETS


@pytest.mark.parametrize(
    "unit, options, message",
    [
        (3.0, {}, "unit=3.0 is neither the name of a start nor a pair .*Start"),
        (torch.nn.Sequential(padenet.PAU(), padenet.PAU()), {}, "Sequential, a model and no unit"),
        ("gleu", {}, "Did you mean 'gelu'"),
        (([1.0], [math.nan]), {}, r"b=\[nan\] is not finite"),
        (([1.0], [1.0]), {"form": "sfae"}, "unknown form 'sfae'"),
        (([1.0], [1.0]), {"interval": (3, -3)}, "low < high"),
        (([1.0], [1.0]), {"interval": 3}, "must be a pair"),
        (([1.0], [1.0]), {"group": 1}, "no groups"),
        ("gelu", {"form": "free"}, "form='free', but the unit has form='safe'"),
        (padenet.PAU(groups=2), {}, "2 groups. Name one: 0 to 1"),
    ],
)
def test_errors(unit, options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        padenet.describe(unit, **options)
