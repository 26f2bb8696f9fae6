"""``torch.export``, ONNX, ``torch.jit.trace``, ``make_fx`` record the formula, not constants."""

import os
import shutil

import numpy as np
import pytest
import torch
from exact import assert_near as judge
from exact import exact
from formula import CASES, Case, assert_near, formula, problem
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

import padenet
from padenet.core.forms import FORMS, Spec
from padenet.torch import functional
from padenet.torch.seeing.finding import cost

pytestmark = [
    pytest.mark.no_poison,
    pytest.mark.filterwarnings("ignore:padenet runs on plain PyTorch"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of torch, used by its exporters
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
COMPILER = shutil.which(os.environ.get("CXX", "c++")) or shutil.which("g++")
HUGE = torch.tensor([0.0, 1e-30, 3.0, -3.0, 1e5, -1e5, 1e30, -1e30]).reshape(2, 4)


class Every(nn.Module):
    """One unit of each case, side by side."""

    def __init__(self, names):
        super().__init__()
        self.units = nn.ModuleList()
        for name in names:
            case = CASES[name]
            _, a, b = problem(case, dtype=torch.float32)
            unit = padenet.PAU((a, b), degrees=case.degrees, groups=case.groups, **case.options)
            self.units.append(unit)

    def forward(self, x):
        return tuple(unit(x) for unit in self.units)


def batch(n):
    gen = torch.Generator().manual_seed(n)
    return torch.randn(n, 4, generator=gen)


@pytest.mark.parametrize("strict", [True, False])
def test_export(strict):
    model = Every(["safe q groups"] if strict else CASES)
    size = torch.export.Dim("n", min=2)
    program = torch.export.export(model, (batch(3),), dynamic_shapes=({0: size},), strict=strict)
    targets = {str(n.target) for n in program.graph.nodes if n.op == "call_function"}
    assert all(t.startswith(("aten.", "<built-in function")) for t in targets), targets
    for x in (batch(3), batch(7), HUGE):
        assert_near(program.module()(x), model(x), 16)


def test_export_in_training_keeps_the_noise_random():
    program = torch.export.export(padenet.RPAU(alpha=0.5), (torch.ones(50),))
    call = program.module()
    x = torch.ones(50)
    assert not torch.equal(call(x), call(x))
    torch.manual_seed(0)
    y = call(x)
    torch.manual_seed(0)
    assert_near(padenet.RPAU(alpha=0.5)(x).detach(), y.detach(), 16)


def test_onnx(tmp_path):
    """One file with every form and grouping, a free batch size, judged by onnxruntime."""
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    model, path = Every(CASES).eval(), tmp_path / "units.onnx"
    size = torch.export.Dim("n", min=2)
    torch.onnx.export(
        model, (batch(3),), path, dynamo=True, dynamic_shapes=({0: size},), verbose=False
    )
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (entry,) = session.get_inputs()
    for x in (batch(3), batch(8), HUGE):
        actual = session.run(None, {entry.name: x.numpy()})
        expected = [y.detach() for y in model(x)]
        assert all(np.isfinite(y).all() for y in actual)
        assert_near([torch.from_numpy(y) for y in actual], expected, 32)


SHAPES = [
    *[Case(degrees=d) for d in ((5, 4), (4, 4), (3, 4), (1, 3), (6, 4), (3, 0), (0, 0), (0, 2))],
    *[Case(form, degrees=d) for form in ("abs_terms", "free") for d in ((5, 4), (2, 3), (4, 2))],
    *[Case("offset", q=0.1, degrees=d) for d in ((5, 4), (2, 0), (0, 0), (2, 3))],
    Case("safe", q=1e-6, degrees=(10, 9)),
    Case(degrees=(14, 13)),  # the long formula
]
POWERS = 2.0 ** torch.arange(-140, 127.5, 0.5)
FINITE = torch.cat([POWERS, -POWERS, torch.zeros(1)]).unsqueeze(1)


def units_of(cases):
    model = Every([])
    for seed, case in enumerate(cases):
        _, a, b = problem(case, dtype=torch.float32, seed=seed)
        if case.form == "free":
            b = b.abs() + 0.01 if case.degrees[1] % 2 == 0 else b
        unit = padenet.PAU((a, b), degrees=case.degrees, groups=case.groups, **case.options)
        model.units.append(unit)
    return model


def bound(x, unit, dtype, spare=0):
    """What ``deploy.exporting`` promises: rounding, and beyond L the lower powers at L.

    Where values are known, powers are let grow by up to 2^spare more.
    """
    want = exact(torch.ones_like(x), x, unit.a, unit.b, form=unit.form, q=unit.q, digits="mpfr")[0]
    m, n = unit.degrees
    limit = 2.0 ** ((960 if dtype == torch.float64 else 112) // max(n, 1))
    a, b = (c.detach().double().abs() for c in (unit.a, unit.b))
    b = torch.cat([unit.q + b[:1], b[1:]] if unit.form == "offset" else [unit.q + 0 * a[:1], b])
    r = sum(
        float((c[:-1] / c[-1]) @ limit ** -torch.arange(len(c) - 1, 0, -1).double()) for c in (a, b)
    )
    room = (960 if dtype == torch.float64 else 112) + spare
    largest = 2.0 ** (room // max(n, 1))
    small = float(a.sum()) * largest**m * 2.0**-126 if m < n else 0
    beyond = x.double().abs().numpy() > limit
    with np.errstate(over="ignore"):  # of MPFR
        want.e = want.e + (beyond * (2 * r * abs(want.v)) if m and n else 0) + small
    return want


def export(model, x):
    return torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim("n", min=2)},))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_every_finite_x(dtype):
    model = units_of(SHAPES)
    largest = min(torch.finfo(dtype).max, torch.finfo(torch.float32).max)
    x = FINITE.clamp(-largest, largest).to(dtype)
    for unit, y in zip(model.units, export(model, x).module()(x), strict=True):
        judge(y, bound(x, unit, dtype), f"{unit} ")


STARTS = ("gelu", "silu", "tanh", "sigmoid", "lrelu", "mish", "sin")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_frozen_units_at_every_finite_x(dtype):
    """P taken apart at a zero keeps the bound of the plain formula in all of these."""
    model = units_of(SHAPES)
    model.units.extend(padenet.PAU(name) for name in STARTS)
    x = FINITE.to(dtype)
    program = export(padenet.freeze(model), x).module()
    for unit, y in zip(model.units, program(x), strict=True):
        judge(y, bound(x, unit, dtype, 8), f"{unit} ")


@pytest.mark.parametrize("zero", [1e-3, -0.7, 40.0, 100.0])
def test_frozen_units_near_their_zero(zero):
    """One zero, far from where the other coefficients would have it."""
    R = [1.0, 0.3, 0.8, 0.02, 0.5]
    a = torch.tensor([-zero * R[0], *(R[j - 1] - zero * R[j] for j in range(1, 5)), R[4]])
    unit = padenet.PAU((a, torch.tensor([0.1, 0.9, 0.02, 0.3])))
    x = torch.cat([FINITE, zero * (1 + torch.linspace(-1e-3, 1e-3, 999)).unsqueeze(1)])
    program = export(padenet.freeze(unit), x)
    assert len(nodes_of(program)) == 20
    want = bound(x, unit, torch.float32)
    want.e = 5 * want.e  # m times that of Horner's rule
    judge(program.module()(x), want)


def onnx_session(model, x, path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    size = torch.export.Dim("n", min=2)
    torch.onnx.export(model, (x,), path, dynamo=True, dynamic_shapes=({0: size},), verbose=False)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (entry,) = session.get_inputs()
    return lambda x: [torch.from_numpy(y) for y in session.run(None, {entry.name: x.numpy()})]


def test_onnx_at_every_finite_x(tmp_path):
    model = units_of(SHAPES)
    run = onnx_session(model.eval(), FINITE[:8], tmp_path / "units.onnx")
    for unit, y in zip(model.units, run(FINITE), strict=True):
        judge(y, bound(FINITE, unit, torch.float32), f"{unit} ")
    special = torch.tensor([[torch.nan], [torch.inf], [-torch.inf]])
    for unit, y in zip(model.units, run(special), strict=True):
        expected = unit(special).detach()
        if unit.degrees != (0, 0):  # a constant, also there
            assert y[0].isnan(), unit
            torch.testing.assert_close(y[1:], expected[1:], rtol=1e-5, atol=1e-5)


def nodes_of(program):
    """Operations on the input: the coefficients are taken apart before."""
    skipped = ("unsqueeze", "unbind", "getitem", "getattr", "stack", "lift_fresh", "detach")
    names = [str(n.target) for n in program.graph.nodes if n.op == "call_function"]
    return [n for n in names if not any(s in n for s in skipped)]


@pytest.mark.parametrize("form", FORMS)
def test_a_unit_is_few_operations(form, tmp_path):
    onnx = pytest.importorskip("onnx")
    unit = units_of([Case(form)]).units[0].eval()
    operations = {"safe": 22, "offset": 23, "free": 21, "abs_terms": 22}[form]
    assert len(nodes_of(export(unit, FINITE))) == operations + (form == "abs_terms")  # |b|
    assert cost(unit) == (10 + (form == "offset"), operations)
    onnx_session(unit, FINITE, tmp_path / "unit.onnx")
    assert len(onnx.load(tmp_path / "unit.onnx").graph.node) == operations


@pytest.mark.parametrize("groups", [2, 4])
def test_coefficients_of_channels_lie_side_by_side(groups):
    """Or compiled code for channels_last, as convolutions make it, gathers them one by one."""
    program = export(padenet.PAU("gelu", groups=groups), torch.randn(3, 4, 2, 2))
    (first, *_) = (n for n in program.graph.nodes if "mul" in str(n.target))
    coefficient = next(n.meta["val"] for n in first.args if n.meta["val"].shape == (4, 1, 1))
    assert coefficient.stride(0) == 1
    assert "stack" in {
        str(n.target).split(".")[1] for n in program.graph.nodes if "." in str(n.target)
    }


@pytest.mark.parametrize("channel_dim", [1, -1])
def test_groups_in_onnx_are_constants(channel_dim, tmp_path):
    onnx = pytest.importorskip("onnx")
    unit = units_of([Case(groups=2, channel_dim=channel_dim)]).units[0].eval()
    gen = torch.Generator().manual_seed(0)
    run = onnx_session(unit, torch.randn(3, 4, 2, 6, generator=gen), tmp_path / "unit.onnx")
    assert len(onnx.load(tmp_path / "unit.onnx").graph.node) == 22
    x = torch.randn(5, 4, 2, 6, generator=gen)
    assert_near(run(x), [unit(x)], 32)


def test_onnx_keeps_coefficients_near_0_and_1(tmp_path):
    """The exporter's optimiser takes 1.000009 for 1 and 9e-9 for 0, of a number without dims."""
    a, b = torch.tensor([9e-9, 1.000009, 9e-9, 1.0, 0.0, 1.000009]), [9e-9, 9e-9, 9e-9, 1e-9]
    unit = padenet.PAU((a, torch.tensor(b))).eval()
    run = onnx_session(unit, FINITE[:8], tmp_path / "unit.onnx")
    x = FINITE[FINITE.abs() < 1e9].unsqueeze(1)
    judge(run(x)[0], exact(torch.ones_like(x), x, unit.a, unit.b, digits="mpfr")[0])


def test_an_exported_unit_can_be_trained():
    unit = padenet.PAU("gelu")
    program = export(unit, batch(3)).module()
    x = batch(5).requires_grad_()
    actual = torch.autograd.grad(program(x).sum(), [x, *program.parameters()])
    expected = torch.autograd.grad(unit(x).sum(), [x, *unit.parameters()])
    assert_near(actual, expected, 64)


def rational(x, a, b):
    return padenet.rational(x, a, b)


def trace_inputs(n):
    x, a, b = problem(Case(groups=2), (n, 4), torch.float32, seed=n)
    return x, a, b


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_make_fx_records_operations(mode):
    graph = make_fx(rational, tracing_mode=mode)(*trace_inputs(3))
    check_trace(graph, rational, 7 if mode == "symbolic" else 3)


def test_make_fx_before_autograd():
    graph = make_fx(rational, pre_dispatch=True)(*trace_inputs(3))
    check_trace(graph, rational, 3)


def test_make_fx_records_the_backward():
    def gradients(x, a, b):
        args = [t.detach().requires_grad_() for t in (x, a, b)]
        return torch.autograd.grad(padenet.rational(*args).square().sum(), args)

    check_trace(make_fx(gradients)(*trace_inputs(3)), gradients, 3)


def test_make_fx_records_noise_of_a_key():
    f = lambda x, a, b, key: functional.apply(x, a, b, key, Spec(alpha=0.5))
    args = trace_inputs(3)
    graph = make_fx(f)(*args, torch.tensor(1))
    for key in (torch.tensor(1), torch.tensor(2**62 + 3)):
        assert_near(graph(*args, key), f(*args, key), 16)


def check_trace(graph, f, n):
    for x, a, b in (trace_inputs(n), [2 * t for t in trace_inputs(n)]):
        assert_near(graph(x, a, b), f(x, a, b), 64)


@pytest.mark.parametrize("groups", [1, 2])
def test_jit_trace(groups):
    """Values, batch size and coefficients of later calls, and gradients, are not baked in."""
    x, a, b = problem(Case(groups=groups), (3, 4), torch.float32)
    traced = torch.jit.trace(rational, (x, a, b))
    assert "PythonOp" not in str(traced.graph)
    args = [t.double().requires_grad_() for t in problem(Case(groups=groups), (6, 4), seed=5)]
    single = [t.detach().float().requires_grad_() for t in args]
    assert_near(traced(*single), formula(*args), 64)
    actual = torch.autograd.grad(traced(*single).sum(), single)
    assert_near(actual, torch.autograd.grad(formula(*args).sum(), args), 256)
    assert_near(traced(HUGE, *single[1:]), padenet.rational(HUGE, *single[1:]), 64)


def test_jit_trace_saves_and_loads(tmp_path):
    unit = padenet.PAU("tanh", groups=2)
    torch.jit.trace(unit, batch(3)).save(tmp_path / "unit.pt")
    loaded = torch.jit.load(tmp_path / "unit.pt")
    assert_near(loaded(batch(5)), unit(batch(5)), 16)


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler")
@pytest.mark.filterwarnings("ignore")  # what Inductor says of itself
@pytest.mark.parametrize("fixed", [False, True], ids=["units", "frozen"])
def test_aot_inductor(fixed, tmp_path):
    """Of every form, with groups and any batch: compiled ahead of time, the same numbers."""
    model = Every(CASES)
    model = (padenet.freeze(model) if fixed else model).eval()
    size = torch.export.Dim("n", min=2)
    with torch.no_grad():
        program = torch.export.export(model, (batch(3),), dynamic_shapes=({0: size},))
        path = str(tmp_path / "net.pt2")
        torch._inductor.aoti_compile_and_package(program, package_path=path)
        compiled = torch._inductor.aoti_load_package(path)
        for x in (batch(3), batch(7), HUGE):
            assert_near(compiled(x), model(x), 16)
