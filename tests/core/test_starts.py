"""Stored starts: every figure measured again through padenet.rational in float64."""

from fractions import Fraction

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import padenet
from padenet.core.starting.aims import AIMS
from padenet.core.starting.starts import (
    ALIASES,
    STARTS,
    STARTS_BY_AIM,
    Start,
    find_start,
    read_pair,
)

EPS = torch.finfo(torch.float64).eps

TARGETS = {
    "identity": lambda x: x,
    "relu": F.relu,
    "relu6": F.relu6,
    "lrelu": lambda x: F.leaky_relu(x, 0.01),
    "lrelu_0.20": lambda x: F.leaky_relu(x, 0.20),
    "lrelu_0.25": lambda x: F.leaky_relu(x, 0.25),
    "lrelu_0.30": lambda x: F.leaky_relu(x, 0.30),
    "lrelu_-0.5": lambda x: F.leaky_relu(x, -0.5),
    "elu": F.elu,
    "celu": F.celu,
    "selu": F.selu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "swish": lambda x: x * torch.sigmoid(x),
    "silu": F.silu,
    "gelu": F.gelu,
    "mish": F.mish,
    "softplus": lambda x: torch.logaddexp(x, torch.zeros_like(x)),
    "hardswish": F.hardswish,
    "sin": torch.sin,
}

# The best least squares fits on [-3, 3] known, RMS and max error, to the digits given.
BEST = {
    "relu": (".00559", ".0339"),
    "lrelu": (".00554", ".0336"),
    "lrelu_0.20": (".00447", ".0271"),
    "lrelu_0.25": (".00420", ".0254"),
    "lrelu_0.30": (".00392", ".0237"),
    "lrelu_-0.5": (".00574", ".0238"),
    "sigmoid": ("1e-9", "5e-9"),
    "tanh": ("9e-7", "3.5e-6"),
    "swish": ("3e-7", "1.2e-6"),
}

# What "near" has with a small weight on the error outside the interval as well.
TAILS = ("elu", "gelu", "hardswish")

EVERY = [start for aims in STARTS_BY_AIM.values() for start in aims.values()]
FITTED = [start for start in EVERY if start.how == "least squares"]


def each(starts):
    return pytest.mark.parametrize("start", starts, ids=[f"{s.name}-{s.aim}" for s in starts])


each_start = each(EVERY)


def grid(start: Start, half: float = 3.0, points: int = 60001) -> torch.Tensor:
    return torch.linspace(-half, half, points, dtype=torch.float64)


def tensors(start: Start) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.tensor(start.a, dtype=torch.float64), torch.tensor(start.b, dtype=torch.float64)


def deviation(start: Start, x: torch.Tensor, target: str) -> torch.Tensor:
    a, b = tensors(start)
    return padenet.rational(x, a, b, form=start.form) - TARGETS[target](x)


def denominator(start: Start, x: torch.Tensor) -> torch.Tensor:
    terms = torch.stack([c * x**k for k, c in enumerate(start.b, 1)])
    return 1 + (terms.sum(0).abs() if start.form == "safe" else terms.abs().sum(0))


def rounding(start: Start, half: float = 3.0) -> float:
    """Bound of the rounding of F in two evaluations of 2 (m + n) + 3 operations each.

    An operation moves P by at most eps Σ |a_j x^j| and Q by at most eps (1 + Σ |b_k x^k|).
    """
    x = grid(start, half)
    Q = denominator(start, x)
    size_P = sum(abs(c) * x.abs() ** j for j, c in enumerate(start.a))
    size_Q = 1 + sum(abs(c) * x.abs() ** k for k, c in enumerate(start.b, 1))
    m, n = start.degrees
    return 2 * (2 * (m + n) + 3) * EPS * (size_P / Q * (1 + size_Q / Q)).max().item()


@each_start
def test_figures_are_reproduced(start):
    error = deviation(start, grid(start), start.target)
    # Six digits are stored: half a unit of the last is at most 5e-6 of the figure.
    room = rounding(start)
    assert abs(error.square().mean().sqrt().item() - start.rms) <= 5e-6 * start.rms + room
    assert abs(error.abs().max().item() - start.max_error) <= 5e-6 * start.max_error + room


@each_start
def test_errors_beyond_the_interval_are_reproduced(start):
    def greatest(x):
        return deviation(start, x, start.target).abs().max().item()

    for name, half in (("at_6", 6.0), ("at_10", 10.0), ("at_20", 20.0)):
        stored = getattr(start.errors, name)
        ends = torch.tensor([-half, half], dtype=torch.float64)
        assert abs(greatest(ends) - stored) <= 5e-6 * stored + rounding(start, half)
    stored = start.errors.to_10
    found = greatest(grid(start, 10.0, 200001))
    assert abs(found - stored) <= 5e-6 * stored + rounding(start, 10.0)
    assert stored >= max(start.max_error, start.errors.at_6, start.errors.at_10)


def test_there_is_a_start_for_every_aim():
    for name, aims in STARTS_BY_AIM.items():
        assert list(aims) == (["paper"] if name.startswith("paper_") else list(AIMS))
        assert all((s.name, s.aim) == (name, aim) for aim, s in aims.items())
        assert STARTS[name] in aims.values() and find_start(name) is STARTS[name]
        assert all(find_start(name, aim) is start for aim, start in aims.items())
        assert all(start.target == STARTS[name].target for start in aims.values())
    others = {name: s.aim for name, s in STARTS.items() if s.aim != "wide"}
    papers = {name: "paper" for name in STARTS if name.startswith("paper_")}
    near = ["relu", "relu6", "lrelu", "lrelu_0.20", "lrelu_0.25", "lrelu_0.30", "selu"]
    known = {**dict.fromkeys([*near, "hardswish", "sin"], "near"), "lrelu_-0.5": "steady"}
    assert others == {**known, **papers}
    assert find_start("silu", "near") is STARTS_BY_AIM["swish"]["near"]


def test_aims_keep_their_promises():
    """Near is the closest on [-3, 3], wide on [-10, 10], and b_4 of steady is 0.3 or more."""
    for name, aims in STARTS_BY_AIM.items():
        if name.startswith("paper_"):
            continue
        wide, near, steady = (aims[aim] for aim in ("wide", "near", "steady"))
        assert near.rms <= min(wide.rms, steady.rms) * (1 + 1e-6), name
        assert wide.errors.to_10 <= min(near.errors.to_10, steady.errors.to_10), name
        assert steady.b[-1] >= 0.3 - 1e-12


# The zero of A that starts have beyond [-3, 3]: F is huge there.
ZEROS = {("elu", "near"): 91.7, ("lrelu_-0.5", "near"): -96.2}


@each(EVERY)
def test_zeros_beyond_the_interval(start):
    """Except for two, none of them a default, no start has a peak where A vanishes."""
    if start.form == "abs_terms":
        return
    roots = np.roots(start.b[::-1])
    real = roots.real[np.abs(roots.imag) < 1e-6 * np.abs(roots)]
    beyond = real[np.abs(real) > 3].tolist()
    known = ZEROS.get((start.name, start.aim))
    assert beyond == ([pytest.approx(known, abs=0.1)] if known else [])


@each_start
def test_record_is_complete(start):
    assert start.degrees == (len(start.a) - 1, len(start.b)) == (5, 4)
    assert start.interval == (-3.0, 3.0)
    assert start.how in ("least squares", "exact", "paper, printed")
    assert (start.form == "abs_terms") == ("paper" in start.name and "relu" in start.name)
    assert all(isinstance(c, float) for c in start.a + start.b)


@pytest.mark.parametrize("name", BEST)
def test_best_known_fit_is_reached(name):
    start = find_start(name, "near")
    for figure, text in zip((start.rms, start.max_error), BEST[name], strict=True):
        mantissa, _, exponent = text.partition("e")
        last_digit = 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
        assert 0.98 * (float(text) - last_digit / 2) <= figure
        assert figure <= 1.02 * (float(text) + last_digit / 2)


def test_the_papers_start():
    a = (0.033559, 0.505000, 1.653407, 2.009933, 0.931850, 0.152413)
    b = (0.0, 3.980060, 0.0, 0.301807)
    start = find_start("lrelu", "near")
    assert start.a == pytest.approx(a, rel=1e-4)
    assert start.b == pytest.approx(b, rel=1e-4, abs=1e-12)


def weights(start: Start, x: torch.Tensor) -> torch.Tensor:
    outside = x.abs() > 3
    light = 1e-4 * 3 / 7 if start.name in TAILS else 0.0
    beyond = {"wide": AIMS["wide"].beyond, "near": light, "steady": 0.0}[start.aim]
    return torch.where(outside, torch.full_like(x, beyond), torch.ones_like(x))


@each(FITTED)
def test_fit_is_stationary(start):
    """The error is orthogonal to every dF/dc; an angle of 1 % off costs 5e-5 of the RMS.

    A coefficient at its bound would continue beyond it.
    """
    x = grid(start, 10.0, 200001)
    a, b = (c.requires_grad_() for c in tensors(start))
    y = padenet.rational(x, a, b)
    error, w = (y - TARGETS[start.target](x)).detach(), weights(start, x)
    y.backward(w * error)
    Q = denominator(start, x)
    size = lambda v: (w * v.square()).sum().sqrt()
    for j in range(6):
        assert abs(a.grad[j]) < 0.01 * size(error) * size(x**j / Q)
    for k in range(1, 5):
        c, grad = start.b[k - 1], b.grad[k - 1]
        small = 0.01 * size(error) * size(x**k * y.detach() / Q)
        if start.aim == "steady" and abs(c - 0.3) < 1e-9 and k == 4:
            assert grad > -small
        elif start.aim == "steady" and abs(c - 10) < 1e-6:
            assert grad < small
        else:
            assert c == 0 or abs(grad) < small


@pytest.mark.parametrize("name", TAILS)
def test_tails_stay_near(name):
    x = torch.linspace(-10, 10, 20001, dtype=torch.float64)
    assert (deviation(find_start(name, "near"), x, name).abs() <= 0.01 + 0.15 * x.abs()).all()


@pytest.mark.parametrize("aim", AIMS)
def test_identity_is_exact_and_can_learn(aim):
    start = find_start("identity", aim)
    a = [Fraction(c) for c in start.a]
    Q = [Fraction(1), *(Fraction(c) for c in start.b)]
    assert a == [0, *Q]
    b = tensors(start)[1].requires_grad_()
    padenet.rational(grid(start), tensors(start)[0], b).square().sum().backward()
    assert (b.grad[1::2] != 0).all()


@pytest.mark.parametrize(("alias", "name"), ALIASES.items())
def test_aliases(alias, name):
    assert find_start(alias) is STARTS[name]
    x = grid(STARTS[name])
    torch.testing.assert_close(TARGETS[alias](x), TARGETS[name](x))


def test_unknown_name():
    with pytest.raises(ValueError, match=r"unknown start 'lreu'\. Did you mean 'lrelu'\? Known: "):
        find_start("lreu")
    with pytest.raises(ValueError, match=r"unknown start '§'\. Known: identity, relu, "):
        find_start("§")


def test_unknown_aim():
    with pytest.raises(ValueError, match=r"unknown aim 'naer'\. Did you mean 'near'\? Known: wide"):
        find_start("gelu", "naer")
    with pytest.raises(ValueError, match=r"'paper_relu' has no aim 'wide', only 'paper'.*'relu'"):
        find_start("paper_relu", "wide")
    assert find_start("paper_relu", "paper") is STARTS["paper_relu"]


def test_pairs_of_all_kinds_are_read_alike():
    """As a start and to be described: lists, arrays turned round, parameters."""
    a, b = [0.0, 1.0, 0.5], [0.25, 0.125]
    tensors = tuple(torch.nn.Parameter(torch.tensor(c)) for c in (a, b))
    turned = tuple(np.array(c[::-1])[::-1] for c in (a, b))
    want = padenet.describe((a, b))
    for pair in ((a, b), [tuple(a), tuple(b)], turned, tensors):
        unit = padenet.PAU(pair, degrees=(2, 2), dtype=torch.float64)
        assert unit.a.tolist() == a and unit.b.tolist() == b and unit.a.requires_grad
        assert padenet.describe(pair) == want
    read = read_pair(tensors, "unit", "PAU")
    assert [c.dtype for c in read] == [np.dtype(float)] * 2


@pytest.mark.parametrize("pair", [3, None, ([1.0],), ([1.0], [1.0], [1.0])])
def test_what_is_no_pair_is_refused(pair):
    with pytest.raises(TypeError, match=r"init=.* is neither the name of a start nor a pair"):
        padenet.PAU(pair)
    with pytest.raises(TypeError, match=r"unit=.* is neither the name of a start nor a pair"):
        padenet.describe(pair)
