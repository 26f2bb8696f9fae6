"""How far a unit may move in a step: the rules, against the unit itself in float64."""

import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from kernels_of_steps import find_steps
from tools import ROOT

import padenet
from padenet.core.forms import FORMS
from padenet.core.starting.starts import find_start
from padenet.torch import trust
from padenet.torch.optim.bank import Bank

MOST = trust.MOST
STARTS_NEAR = find_start("lrelu", "near")


def weight(x):
    return (3 / x.abs()).clamp(max=1.0)


def points():
    far = torch.tensor(trust.FAR, dtype=torch.float64)
    return torch.cat([torch.linspace(-10, 10, trust.INSIDE, dtype=torch.float64), far, -far])


def make_unit(form="safe", groups=1, seed=0, degrees=(5, 4), dtype=torch.float64):
    """One with random coefficients, which were its start: nothing is below a floor."""
    draw = torch.Generator().manual_seed(seed)
    m, n = degrees
    a = torch.randn(groups, m + 1, generator=draw, dtype=torch.float64)
    b = torch.rand(groups, n + (form == "offset"), generator=draw, dtype=torch.float64) + 0.1
    pair = (a, b) if groups > 1 else (a[0], b[0])
    return padenet.PAU(pair, form=form, groups=groups, degrees=degrees, dtype=dtype)


def values(unit, x):
    """(groups, points)."""
    return padenet.rational(
        x.expand(unit.groups, -1).contiguous(),
        unit.a.detach().double(),
        unit.b.detach().double(),
        form=unit.form,
        q=unit.q,
        channel_dim=0,
    )


def step(units, change, most=MOST):
    """Hold the step that ``change(parameter)`` makes; the bank, for its counts."""
    bank = Bank({str(i): u for i, u in enumerate(units)}, most)
    with torch.no_grad():
        bank.remember()
        for p in bank.parameters:
            p += change(p)
        bank.hold()
    return bank


@given(
    form=st.sampled_from(list(FORMS)),
    groups=st.sampled_from([1, 3]),
    seed=st.integers(0, 2**16),
    size=st.floats(-8, 6),
    degrees=st.sampled_from([(5, 4), (3, 2), (2, 0), (7, 6)]),
)
def test_no_step_moves_a_unit_further(form, groups, seed, size, degrees):
    """Anywhere on the grid, however large the step. float64: 1e-9 is rounding."""
    unit = make_unit(form, groups, seed, degrees)
    draw = torch.Generator().manual_seed(seed)
    before, x = values(unit, points()), points()
    step([unit], lambda p: torch.randn(p.shape, generator=draw, dtype=p.dtype) * 10**size)
    moved = (values(unit, x) - before).abs() * weight(x)
    assert moved.max() <= MOST * (1 + 1e-6) + 1e-9 * before.abs().max()


def test_a_step_that_is_small_everywhere_is_left_alone():
    """But for what it is measured by: a_0 moves F by as much as itself."""
    unit = make_unit()
    before = unit.a.detach().clone()
    bank = step([unit], lambda p: torch.zeros_like(p).index_fill_(-1, torch.tensor(0), 1e-3))
    assert unit.a[0] == before[0] + 1e-3
    assert torch.equal(unit.a[1:], before[1:])
    assert bank.held.tolist() == [0]


def test_each_coefficient_is_measured_by_what_it_does():
    """dF/da_5 = x^5 / Q is hundreds where the inputs are: the step is divided by that."""
    unit = padenet.PAU("gelu", dtype=torch.float64)
    x, before = points(), unit.a.detach().clone()
    unit.a.requires_grad_()
    rate = max(
        (w * torch.autograd.grad(unit(x[i : i + 1]).sum(), unit.a)[0][5].abs()).item()
        for i, w in enumerate(weight(x))
    )
    assert rate > 50
    step([unit], lambda p: torch.eye(p.numel(), dtype=p.dtype)[-1] * 1e-3 * (p is unit.a))
    expected = before[5] + 1e-3 * trust.AT_MOST / rate
    torch.testing.assert_close(unit.a.detach()[5], expected, rtol=1e-9, atol=0)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 1e300])
def test_a_step_that_is_not_finite_is_not_taken(bad):
    unit, other = make_unit(seed=1), make_unit(seed=2)
    before = [p.detach().clone() for p in (unit.a, unit.b)]
    bank = step([unit, other], lambda p: torch.full_like(p, bad) if p is unit.a else 1e-5)
    assert torch.equal(unit.a, before[0])
    assert torch.equal(unit.b, before[1])
    assert bank.held.tolist() == [1, 0]
    assert other.a.isfinite().all()


def test_no_step_takes_b_n_through_0():
    """F would have to move without bound. A step that no rate makes: all at once."""
    unit = padenet.PAU("lrelu", aim="near", dtype=torch.float64)
    least = trust.FLOOR * unit.b.detach()[-1].item()
    last = torch.tensor([0.0, 0.0, 0.0, -1.0])
    for _ in range(300):
        step([unit], lambda p: p.detach() * (last if p is unit.b else 0))
        assert unit.b[-1] >= least
    assert unit.b[-1] < 0.2  # from 0.30, in steps that get smaller and smaller


@pytest.mark.parametrize("groups", [1, 4])
def test_a_unit_past_the_edge_is_led_back_in_small_steps(groups):
    """With b_4 < 0 it reaches millions at 31, and 0.03 is where the start would be held."""
    unit = padenet.PAU("lrelu", aim="near", groups=groups, dtype=torch.float64)
    x = torch.linspace(-10, 10, 500, dtype=torch.float64)
    with torch.no_grad():
        unit.b[..., -1] = -0.004
    assert values(unit, torch.linspace(31, 32, 1001, dtype=torch.float64)).max() > 5e6
    crossed = None
    for i in range(1500):
        before = values(unit, x)
        step([unit], torch.zeros_like)
        assert ((values(unit, x) - before).abs() * weight(x)).max() <= MOST * 1.05
        crossed = i if crossed is None and (unit.b[..., -1] > 0).all() else crossed
    assert 50 < crossed < 300
    least = trust.FLOOR * STARTS_NEAR.b[-1]
    torch.testing.assert_close(unit.b.detach()[..., -1], torch.full_like(unit.b[..., -1], least))
    assert values(unit, torch.linspace(10, 1000, 99999, dtype=torch.float64)).abs().max() < 6000


def test_many_groups_are_computed_in_parts(monkeypatch):
    units = [make_unit(groups=7, seed=i) for i in range(2)]
    same = [make_unit(groups=7, seed=i) for i in range(2)]
    step(units, lambda p: 0.3 * p)
    monkeypatch.setattr(trust, "ROWS", 4)
    step(same, lambda p: 0.3 * p)
    for one, other in zip(units, same, strict=True):
        assert torch.equal(one.a, other.a)
        assert torch.equal(one.b, other.b)


@pytest.mark.filterwarnings("ignore:All-NaN:RuntimeWarning", "ignore:invalid:RuntimeWarning")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["native", "gpu"])
def test_the_kernels_do_the_same(name, form, groups, dtype):
    """Triton's in its interpreter, or on the GPU. All compute in float64 and round once.

    In float64 itself the sums differ in their order. With |F| up to 1e3 times MOST, and terms that
    cancel to a thousandth of themselves, that is 2**-53 * 1e8 in the part of the step taken.
    """
    kernel, device = find_steps(name)
    units = [make_unit(form, groups, seed, dtype=dtype).to(device) for seed in range(4)]
    named = {str(i): u for i, u in enumerate(units)}
    fast, plain = Bank(named, MOST), Bank(named, MOST)
    fast.kernel, plain.kernel = kernel, None
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in units[3].b, units[3].a, units[1].b:
            p[..., -1] = -1.0  # past the edge
        units[1].a[..., 0] = float("nan")  # b is sound, and stays so
        for bank in fast, plain:
            bank.remember()
        for i, p in enumerate(fast.parameters):
            p += torch.randn(p.shape, generator=draw).to(p) * 10.0 ** (i - 6)
        units[2].a[..., 0] = float("nan")
        asked = [p.clone() for p in fast.parameters]
        fast.hold()
        got = [p.clone() for p in fast.parameters]
        for p, value in zip(fast.parameters, asked, strict=True):
            p.copy_(value)
        plain.hold()
    rtol = {torch.float32: 2e-7, torch.float64: 1e-8, torch.bfloat16: 2**-7}[dtype]
    for value, p in zip(got, plain.parameters, strict=True):
        torch.testing.assert_close(value, p.detach(), rtol=rtol, atol=1e-12, equal_nan=True)
    for counted in "steps", "held", "since":
        assert torch.equal(getattr(fast, counted), getattr(plain, counted)), counted


def test_the_library_has_room_for_the_grid():
    """Its arrays are on the stack: points in whole vectors of any width, and every coefficient."""
    text = (ROOT / "native" / "steps.h").read_text()
    room = int(re.search(r"MAX_POINTS = (\d+)", text)[1])
    count = trust.INSIDE + 2 * len(trust.FAR)
    assert count <= room and count % 8 == 0
