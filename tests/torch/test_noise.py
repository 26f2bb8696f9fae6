"""The noise by itself (known answers, distribution, independence) and as RPAU uses it.

Values and gradients with noise are in the conformance file.
"""

import math

import pytest
import torch
from formula import Case, assert_near, problem
from philox import noises, philox

import padenet
from padenet.core import noise
from padenet.core.forms import Spec
from padenet.torch import functional
from padenet.torch.noise import draw_key, uniform

pytestmark = pytest.mark.filterwarnings("ignore:padenet runs on plain PyTorch")
N = 100_000

# Random123's own known answers: counter, key, result, of 10 and of 7 rounds.
PI = "243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0"
ZEROS, ONES = ("00000000 " * 4, "00000000 " * 2), ("ffffffff " * 4, "ffffffff " * 2)
KNOWN = [
    (10, *ZEROS, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    (10, *ONES, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    (10, *PI, "d16cfe09 94fdcceb 5001e420 24126ea1"),
    (7, *ZEROS, "5f6fb709 0d893f64 4f121f81 4f730a48"),
    (7, *ONES, "5207ddc2 45165e59 4d8ee751 8c52f662"),
    (7, *PI, "4dfccaba 190a87f0 c47362ba b6b5242a"),
]


def words(text):
    return [int(w, 16) for w in text.split()]


@pytest.mark.parametrize("rounds, counter, key, expected", KNOWN)
def test_known_answers(rounds, counter, key, expected):
    k0, k1 = words(key)
    key = torch.tensor(k0 | (k1 << 32 if k1 < 2**31 else (k1 << 32) - 2**64))
    actual = noise.philox(key, tuple(torch.tensor(w) for w in words(counter)), rounds)
    assert [int(w) for w in actual] == words(expected)
    assert philox((k0, k1), words(counter), rounds) == words(expected)


def test_uniform_is_as_described():
    key = 0x123456789ABCDEF0
    draws = uniform(torch.tensor(key), torch.Size([3, 5]), 24, torch.device("cpu"))
    for index in range(15):
        assert [u.flatten()[index].item() for u in draws] == noises(key, index, 24)


def test_no_bit_is_used_twice():
    """120 of the 128 bits, each in one noise only."""
    used = []
    for bit in range(128):
        w = tuple(torch.tensor(1 << bit % 32 if i == bit // 32 else 0) for i in range(4))
        changed = [(s, int(noise._slot(w, s))) for s in range(10) if int(noise._slot(w, s))]
        assert len(changed) <= 1
        used += changed
    assert sorted(used) == sorted((s, 1 << i) for s in range(10) for i in range(12))


@pytest.fixture(scope="module")
def draws():
    """20 noises for each of N elements."""
    key = torch.tensor(0x0123456789ABCDEF)
    return torch.stack(uniform(key, torch.Size([N]), 20, torch.device("cpu")))


def chi_square(counts, expected):
    """In standard deviations from what it should be."""
    freedom = counts.numel() - 1
    return (float(((counts - expected) ** 2 / expected).sum()) - freedom) / math.sqrt(2 * freedom)


def test_levels(draws):
    """4096 values at equal distance, symmetric, all of them met."""
    levels = (2 * torch.arange(4096, dtype=torch.float64) + 1) / 4096 - 1
    assert torch.equal(draws.unique(), levels)
    assert torch.equal(levels, -levels.flip(0)) and levels.abs().max() < 1


def test_mean_and_variance(draws):
    assert draws.mean(1).abs().max() < 5 * math.sqrt(1 / 3 / N)
    # the fourth moment is 1/5, so the variance of u^2 is 1/5 - 1/9
    assert (draws.square().mean(1) - 1 / 3).abs().max() < 5 * math.sqrt((1 / 5 - 1 / 9) / N)


def test_uniform_distribution(draws):
    for u in draws:
        assert abs(chi_square(torch.histc(u, 64, -1, 1), N / 64)) < 5


def test_noises_of_an_element_are_independent(draws):
    off = torch.corrcoef(draws) - torch.eye(len(draws), dtype=draws.dtype)
    assert off.abs().max() < 5.5 / math.sqrt(N)
    cell = ((draws + 1) * 4).long()
    for i in range(len(draws)):
        j = (i + 1) % len(draws)
        assert abs(chi_square(torch.bincount(8 * cell[i] + cell[j], minlength=64), N / 64)) < 5


def test_elements_and_keys_are_independent(draws):
    for step in (1, 2, 3, 64):
        r = (draws[:, step:] * draws[:, :-step]).mean(1) * 3
        assert r.abs().max() < 5 / math.sqrt(N)
    for key in (0x0123456789ABCDEE, 0x0123456689ABCDEF):  # one bit away
        other = uniform(torch.tensor(key), torch.Size([N]), 10, torch.device("cpu"))
        r = (draws[:10] * torch.stack(other)).mean(1) * 3
        assert r.abs().max() < 5 / math.sqrt(N)


def test_keys_come_from_torchs_generator():
    torch.manual_seed(0)
    first = [int(draw_key(torch.device("cpu"))) for _ in range(50)]
    torch.manual_seed(0)
    assert [int(draw_key(torch.device("cpu"))) for _ in range(50)] == first
    assert len(set(first)) == 50 and min(first) >= 0 and max(first) > 2**62


def actual_of(args, key, alpha, case, dy):
    args = [t.detach().requires_grad_() for t in args]
    spec = Spec(case.form, case.q, case.channel_dim, alpha)
    y = functional.apply(*args, torch.tensor(key), spec)
    return y.detach(), *torch.autograd.grad(y, args, dy)


@pytest.mark.parametrize("groups", [1, 2])
def test_memory_layout_changes_nothing(groups, backend):
    """The counter is the index in the shape, whatever the strides."""
    case = Case(groups=groups)
    x, a, b = problem(case, (2, 4, 3, 5), torch.float32)
    dy = torch.ones_like(x)
    expected = actual_of((x, a, b), 5, 0.4, case, dy)
    layouts = [
        x.contiguous(memory_format=torch.channels_last),
        x.permute(3, 1, 0, 2).contiguous().permute(2, 1, 3, 0),
        torch.cat([x, x])[::2].copy_(x),
        x.repeat_interleave(2, 3)[..., ::2],
    ]
    for other in layouts:
        y, dx, da, db = actual_of((other, a, b), 5, 0.4, case, dy)
        assert_near((y, dx), expected[:2], 4)
        assert_near((da, db), expected[2:], 64)  # the sum has another order


def test_seed_repeats_and_calls_differ():
    unit, x = padenet.RPAU(alpha=0.1), torch.randn(30)
    torch.manual_seed(4)
    first, second = unit(x), unit(x)
    torch.manual_seed(4)
    assert torch.equal(unit(x), first) and torch.equal(unit(x), second)
    assert not torch.equal(first, second)


@pytest.mark.parametrize("groups", [1, 2])
def test_evaluation_and_alpha_zero_are_pau(groups):
    x, plain = torch.randn(5, 4), padenet.PAU("tanh", groups=groups)
    assert torch.equal(padenet.RPAU("tanh", alpha=0.5, groups=groups).eval()(x), plain(x))
    assert torch.equal(padenet.RPAU("tanh", alpha=0, groups=groups)(x), plain(x))
    assert not torch.equal(padenet.RPAU("tanh", alpha=0.5, groups=groups)(x), plain(x))


def test_noise_has_the_width_of_alpha():
    """F = a_1 x with a_1 = 3: y / 3x - 1 is u itself, uniform on (-alpha, alpha)."""
    unit = padenet.RPAU(((0.0, 3.0), ()), degrees=(1, 0), alpha=0.2)
    x = torch.linspace(1, 2, N, dtype=torch.float64)
    torch.manual_seed(0)
    u = (unit(x) / (3 * x) - 1).detach() / 0.2
    assert u.abs().max() < 1 and abs(u.mean()) < 5 * math.sqrt(1 / 3 / N)
    assert abs(chi_square(torch.histc(u, 64, -1, 1), N / 64)) < 5
