"""Stored starts: every figure measured again through padenet.rational in float64."""

import importlib.util
import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from fits import series

import padenet
from padenet.coefficients import ALIASES, STARTS, Start, find_start, read_pair

ROOT = Path(__file__).parent.parent
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

# The best least squares fits known, RMS and max error, to the digits given.
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

# Fitted with a small weight on the error outside the interval as well.
TAILS = ("elu", "gelu", "hardswish")

each_start = pytest.mark.parametrize("start", STARTS.values(), ids=list(STARTS))


def grid(start: Start) -> torch.Tensor:
    return torch.linspace(*start.interval, 60001, dtype=torch.float64)


def tensors(start: Start) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.tensor(start.a, dtype=torch.float64), torch.tensor(start.b, dtype=torch.float64)


def deviation(start: Start, x: torch.Tensor, target: str) -> torch.Tensor:
    a, b = tensors(start)
    return padenet.rational(x, a, b, form=start.form) - TARGETS[target](x)


def denominator(start: Start, x: torch.Tensor) -> torch.Tensor:
    terms = torch.stack([c * x**k for k, c in enumerate(start.b, 1)])
    return 1 + (terms.sum(0).abs() if start.form == "safe" else terms.abs().sum(0))


def rounding(start: Start) -> float:
    """Bound of the rounding of F in two evaluations of 2 (m + n) + 3 operations each.

    An operation moves P by at most eps Σ |a_j x^j| and Q by at most eps (1 + Σ |b_k x^k|).
    """
    x = grid(start)
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
def test_record_is_complete(start):
    assert start.name in STARTS and STARTS[start.name] is start
    assert start.degrees == (len(start.a) - 1, len(start.b)) == (5, 4)
    assert start.interval == (-3.0, 3.0)
    assert start.how in ("least squares", "exact", "paper, printed")
    assert (start.form == "abs_terms") == ("paper" in start.name and "relu" in start.name)
    assert all(isinstance(c, float) for c in start.a + start.b)


@pytest.mark.parametrize("name", BEST)
def test_best_known_fit_is_reached(name):
    start = STARTS[name]
    for figure, text in zip((start.rms, start.max_error), BEST[name], strict=True):
        mantissa, _, exponent = text.partition("e")
        last_digit = 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
        assert 0.98 * (float(text) - last_digit / 2) <= figure
        assert figure <= 1.02 * (float(text) + last_digit / 2)


def test_default_start():
    a = (0.033559, 0.505000, 1.653407, 2.009933, 0.931850, 0.152413)
    b = (0.0, 3.980060, 0.0, 0.301807)
    start = find_start("lrelu")
    assert start.a == pytest.approx(a, rel=1e-4)
    assert start.b == pytest.approx(b, rel=1e-4, abs=1e-12)


@pytest.mark.parametrize(
    "name", [s.name for s in STARTS.values() if s.how == "least squares" and s.name not in TAILS]
)
def test_fit_is_stationary(name):
    """The error is orthogonal to every dF/dc; an angle of 1 % off costs 5e-5 of the RMS."""
    start = STARTS[name]
    x = grid(start)
    a, b = (c.requires_grad_() for c in tensors(start))
    y = padenet.rational(x, a, b)
    error = (y - TARGETS[start.target](x)).detach()
    y.backward(error)
    Q = denominator(start, x)
    for j in range(6):
        slope = x**j / Q
        assert abs(a.grad[j]) < 0.01 * error.norm() * slope.norm()
    for k in range(1, 5):
        slope = x**k * y.detach() / Q
        assert start.b[k - 1] == 0 or abs(b.grad[k - 1]) < 0.01 * error.norm() * slope.norm()


@pytest.mark.parametrize("name", TAILS)
def test_tails_stay_near(name):
    x = torch.linspace(-10, 10, 20001, dtype=torch.float64)
    assert (deviation(STARTS[name], x, name).abs() <= 0.01 + 0.15 * x.abs()).all()


def test_identity_is_exact_and_can_learn():
    start = STARTS["identity"]
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


@pytest.fixture(scope="module")
def make_starts():
    pytest.importorskip("scipy", reason="tools/make_starts.py needs scipy")
    spec = importlib.util.spec_from_file_location("make_starts", ROOT / "tools/make_starts.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_file_is_what_the_script_makes(make_starts):
    records = {r["name"]: r for r in json.loads(make_starts.OUT.read_text(encoding="utf-8"))}
    assert list(records) == [
        "identity",
        *make_starts.TARGETS,
        *(f"paper_{name}" for name in make_starts.PAPER),
    ]
    quick = [make_starts.identity(), *map(make_starts.printed, make_starts.PAPER)]
    for made in quick:
        stored = records[made["name"]]
        for figure in ("rms", "max_error"):
            assert made.pop(figure) == pytest.approx(stored.pop(figure), rel=1e-5)
        assert made == stored


@pytest.mark.parametrize("name", ["sigmoid", "tanh", "swish"])
def test_printed_columns_are_pade_approximants(make_starts, name):
    """f Q - P = O(x^10), once sigmoid's b_4 is read as 1/1008."""
    c = [Fraction(v) for v in make_starts.PAPER[name].replace("1/10008", "1/1008").split()]
    a, Q = c[:6], [Fraction(1), *c[6:]]
    f = series(name, 10)
    product = [sum(f[i - k] * Q[k] for k in range(min(i, 4) + 1)) for i in range(10)]
    assert product == [*a, 0, 0, 0, 0]


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
    assert [c.dtype for c in read] == [torch.float64] * 2 and not read[0].requires_grad


@pytest.mark.parametrize("pair", [3, None, ([1.0],), ([1.0], [1.0], [1.0])])
def test_what_is_no_pair_is_refused(pair):
    with pytest.raises(TypeError, match=r"init=.* is neither the name of a start nor a pair"):
        padenet.PAU(pair)
    with pytest.raises(TypeError, match=r"unit=.* is neither the name of a start nor a pair"):
        padenet.describe(pair)
