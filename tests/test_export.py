"""``torch.export``, ONNX, ``torch.jit.trace``, ``make_fx`` record the formula, not constants."""

import numpy as np
import pytest
import torch
from formula import CASES, Case, assert_near, formula, problem
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

import padenet
from padenet import functional
from padenet.spec import Spec

pytestmark = [
    pytest.mark.no_poison,
    pytest.mark.filterwarnings("ignore:padenet runs on plain PyTorch"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of torch, used by its exporters
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning"),  # sizes are tensors to it
]
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
