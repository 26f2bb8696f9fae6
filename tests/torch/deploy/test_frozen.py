"""``freeze``: fixed units give the same numbers, and tables theirs to the error they state."""

import copy
import pickle

import pytest
import torch
from exact import assert_near, exact
from formula import CASES, problem
from torch import fx, nn

import padenet

pytestmark = [
    pytest.mark.no_poison,
    pytest.mark.filterwarnings("ignore:padenet runs on plain PyTorch"),
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),
]
HUGE = torch.tensor([0.0, 1e-30, 3.0, -3.0, 1e5, -1e5, 1e30, -1e30]).reshape(2, 4)


def unit_of(case, kind=padenet.PAU):
    _, a, b = problem(CASES[case], dtype=torch.float32)
    return kind(
        (a, b), degrees=CASES[case].degrees, groups=CASES[case].groups, **CASES[case].options
    )


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_same_bits(case, dtype):
    unit = unit_of(case).to(dtype)
    x = HUGE.to(dtype)
    frozen = padenet.freeze(unit)
    assert torch.equal(frozen(x), unit(x))
    assert torch.equal(pickle.loads(pickle.dumps(frozen))(x), unit(x))


def test_a_model_is_copied_without_parameters_of_units():
    shared = padenet.RPAU("tanh", alpha=0.5, groups=2)
    model = nn.Sequential(nn.Linear(4, 4), shared, nn.ModuleList([padenet.PAU()])[0], shared)
    frozen = padenet.freeze(model)
    assert isinstance(model[1], padenet.RPAU)
    assert frozen.training
    assert [n for n, _ in frozen.named_parameters()] == ["0.weight", "0.bias"]
    assert frozen.state_dict().keys() == model.state_dict().keys()
    assert frozen[1] is frozen[3]
    x = HUGE[:, 2:4].repeat(1, 2)
    assert torch.equal(frozen(x), model.eval()(x))
    assert repr(frozen[1]) == "Frozen(degrees=(5, 4), form='safe', groups=2, channel_dim=1)"


def test_hooks_stay():
    seen = []
    model = nn.Sequential(padenet.PAU())
    model[0].register_forward_hook(lambda module, x, y: seen.append(y))
    y = padenet.freeze(model)(HUGE)
    assert torch.equal(seen[0], y)


def test_the_gradient_of_x_passes():
    unit, x = padenet.PAU("gelu"), HUGE[:, :4].clone().requires_grad_()
    (expected,) = torch.autograd.grad(unit(x).sum(), x)
    (actual,) = torch.autograd.grad(padenet.freeze(unit)(x).sum(), x)
    assert torch.equal(actual, expected)


def test_exports_follow_what_is_loaded_and_converted():
    """The numbers that are in the program are those of the buffers now."""
    frozen, other = padenet.freeze(padenet.PAU("gelu")), padenet.PAU("tanh")
    frozen.load_state_dict({"a": other.a, "b": torch.tensor([0.0, 0.0, 0.0, 0.5])})
    for model in (frozen, frozen.bfloat16()):
        program = torch.export.export(model, (HUGE,)).module()
        x = HUGE.clamp(-1e5, 1e5)
        torch.testing.assert_close(program(x), model(x), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("a", "b", "count"),
    [
        ((0.0, 1.0, 0.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0), 1),  # x: mul of a_1 alone
        ((0.5, 1.0, 0.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0), 7),
        ((0.1, 1.0, 2.0, 0.5, 0.1, 0.2), (0.1, 1.0, 0.2, 0.1), 20),  # P taken apart at a zero
        ((0.1, 1.0, 2.0, 0.5, 0.1, 0.0), (0.1, 1.0, 0.2, 0.1), 18),  # m = n
        ((0.1, 1.0, 2.0, 0.5, 0.1, 0.2), (0.1, 1.0, 0.2, 1e-12), None),  # b_4 takes over at 2e11
    ],
)
def test_what_is_zero_is_left_out(a, b, count):
    unit = padenet.PAU((a, b))
    frozen = padenet.freeze(unit)
    program = torch.export.export(frozen, (torch.ones(3, 4),))
    plain = ("unsqueeze", "unbind", "getitem", "lift_fresh", "detach")
    nodes = [
        n
        for n in program.graph.nodes
        if n.op == "call_function" and not any(p in str(n.target) for p in plain)
    ]
    assert len(nodes) == count if count else len(nodes) > 100
    x = torch.cat([s * 2.0 ** torch.arange(-140, 128) for s in (1, -1)])
    program = torch.export.export(frozen, (x,))
    want = exact(torch.ones_like(x), x, unit.a, unit.b, digits="mpfr")[0]
    want.e = want.e + 2.0**-20 * abs(want.v) + 2.0**-60  # where m < n, 0 where Q overflows
    assert_near(program.module()(x), want)


@pytest.mark.parametrize("groups", [1, 2])
def test_strict_export_has_no_warning(groups):
    """Values are worked out in Python, which torch does not trace."""
    frozen = padenet.freeze(nn.Sequential(padenet.PAU("gelu", groups=groups)))
    program = torch.export.export(frozen, (torch.ones(3, 4),), strict=True).module()
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(program(x), frozen(x))


@pytest.mark.parametrize("groups", [1, 2])
def test_fx_and_trace(groups):
    model = padenet.freeze(nn.Sequential(padenet.PAU("gelu", groups=groups)))
    graph = fx.symbolic_trace(model)
    assert [n.op for n in graph.graph.nodes] == ["placeholder", "call_module", "output"]
    traced = torch.jit.trace(model, torch.ones(3, 4))
    torch.testing.assert_close(traced(HUGE), model(HUGE))


def test_nothing_to_freeze():
    with pytest.raises(ValueError, match="Linear has no Padé units"):
        padenet.freeze(nn.Linear(2, 2))
    with pytest.raises(ValueError, match="units of Sequential are frozen already"):
        padenet.freeze(padenet.freeze(nn.Sequential(padenet.PAU())))
    with pytest.raises(TypeError, match="Freeze the model first"):
        padenet.freeze(torch.compile(nn.Sequential(padenet.PAU())))


@pytest.mark.parametrize("groups", [1, 2])
def test_table(groups):
    unit = padenet.PAU("gelu", groups=groups)
    if groups > 1:
        with torch.no_grad():
            unit.a[1] *= 2
    table = padenet.freeze(unit, table=(-4, 6))
    x = torch.linspace(-4, 6, 20002).reshape(-1, 2)
    error = (table(x) - unit(x)).abs()
    rows = error.T if groups > 1 else [error]
    for row, stated in zip(rows, table.error, strict=True):
        assert 0.9 * stated < row.max() < stated + 1e-5  # rounding of x moves a step by 1e-6
    step = 10 / 255
    slopes = [
        padenet.describe(unit, interval=(-4, 6), group=g if groups > 1 else None).lipschitz
        for g in range(groups)
    ]
    assert all(e <= s * step / 2 for e, s in zip(table.error, slopes, strict=True))
    ends = torch.tensor([[-4.0] * 2, [6.0] * 2])
    far = torch.tensor([[-torch.inf] * 2, [torch.inf] * 2])
    assert torch.equal(table(far), table(ends))
    assert table(torch.full((1, 2), torch.nan)).isfinite().all()
    for dtype in (torch.float64, torch.bfloat16):
        assert table(x.to(dtype)).dtype == dtype
    assert not list(table.parameters())


def test_table_is_exact_on_its_grid():
    """What is quantised to 8 bits with this scale and zero point is looked up exactly."""
    unit, scale, zero = padenet.PAU("swish"), 0.037, 100
    table = padenet.freeze(unit, table=(-zero * scale, (255 - zero) * scale))
    x = (torch.arange(256) - zero) * scale
    torch.testing.assert_close(table(x), unit(x), rtol=0, atol=4e-6)


def test_tables_by_name():
    model = nn.Sequential(padenet.PAU(), padenet.PAU())
    frozen = padenet.freeze(model, table={"0": (-1, 1), "1": (-2, 2)})
    assert [m.interval for m in frozen] == [(-1, 1), (-2, 2)]
    with pytest.raises(ValueError, match=r"no interval for 1\. Give one for every unit: 0, 1"):
        padenet.freeze(model, table={"0": (-1, 1)})
    with pytest.raises(ValueError, match=r"table=\(1, -1\) must be \(low, high\)"):
        padenet.freeze(model, table=(1, -1))


def test_copies():
    frozen = padenet.freeze(padenet.PAU())
    assert torch.equal(
        copy.deepcopy(frozen).double()(HUGE.double()), frozen.double()(HUGE.double())
    )


def test_a_state_of_units_fits_where_they_are_of_that_kind():
    trained = nn.Sequential(padenet.PAU("tanh"))
    frozen = padenet.freeze(nn.Sequential(padenet.PAU("gelu")))
    frozen.load_state_dict(trained.state_dict())
    assert torch.equal(frozen(HUGE), trained(HUGE))
    other = nn.Sequential(padenet.PAU(form="abs_terms"))
    with pytest.raises(
        ValueError, match=r"saved with form='abs_terms' and has form='safe', q=1.0 here"
    ):
        frozen.load_state_dict(other.state_dict())
