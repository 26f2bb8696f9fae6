"""Forward in plain operations, as inductor fuses it: its values, and that it gets that far.

``test_cuda.py`` has the rest, on a GPU.
"""

import sys
from subprocess import run

import numpy as np
import pytest
import torch
from exact import Exact, assert_near
from functorch.compile import make_boxed_func
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch._dynamo.backends.common import aot_autograd

import padenet
from padenet.core.forms import FORMS, Spec
from padenet.torch import reference
from padenet.torch.kernels import gpu
from padenet.torch.kernels.gpu import fused

F32, BF16, F16 = torch.float32, torch.bfloat16, torch.float16
INF, NAN = float("inf"), float("nan")
HUGE = torch.finfo(F32).max

sizes = st.floats(2.0**-60, 2.0**50, width=32) | st.floats(0.125, 8, width=32)
coefficient = st.just(0.0) | sizes | sizes.map(lambda v: -v)
ordinary = st.floats(-100, 100, width=32)
anything = st.floats(width=32, allow_nan=False)


@settings(max_examples=300)
@given(st.data(), st.sampled_from(list(FORMS)), st.sampled_from([F32, BF16, F16]))
def test_right_at_every_x(data, form, dtype):
    m, n = data.draw(st.integers(0, 7)), data.draw(st.integers(0, 6))
    n += form == "offset"
    q = data.draw(st.sampled_from([1.0, 0.5, 1e-3])) if form in ("safe", "offset") else 1.0
    groups = data.draw(st.sampled_from([None, 1, 3]))
    lead = [] if groups is None else [groups]
    draw = lambda k: torch.tensor(
        data.draw(st.lists(coefficient, min_size=k * (groups or 1), max_size=k * (groups or 1)))
    ).reshape(*lead, k)
    a, b = draw(m + 1), draw(n)
    values = data.draw(st.lists(ordinary | anything, min_size=6, max_size=6))
    x = torch.tensor([*values, INF, -INF, HUGE, -HUGE, 0.0, -64.5]).to(dtype).reshape(2, 6)
    spec = Spec(form, q, data.draw(st.sampled_from([1, -1])))
    got = fused.forward(x, a, b, spec)
    want = Exact(x, a, b, form=form, q=q, channel_dim=1, digits="mpfr").y
    assert got.dtype == dtype
    assert_near(got, want, "y")


UNITS = {
    "(5, 4)": ([0.1, 0.5, 1.7, 2.0, 0.9, 0.2], [0.0, 4.0, 0.0, 0.3]),
    "b_4 = 0": ([0.1, -0.5, 1.7, 2.0, 0.9, 0.2], [0.1, -4.0, -0.5, 0.0]),
    "a_5 = b_4 = 0": ([0.3, 1.0, -0.2, 0.1, 0.4, 0.0], [0.2, -0.3, 0.5, 0.0]),
    "identity": ([0.0, 1.0, 0.0, 0.0, 0.0, 0.0], [0.0] * 4),
    "all zero": ([0.0] * 6, [0.0] * 4),
    "constant": ([0.5, 0.0, 0.0, 0.0, 0.0, 0.0], [0.0] * 4),
    "tiny a_5, b_4": ([0.3, 1.0, -0.2, 0.1, 0.4, 1e-20], [0.2, -0.3, 0.5, -1e-20]),
    "large": ([1e8, -2e8, 3e8, 1e8, -1e8, 2e8], [1e8, 2e8, -1e8, 3e8]),
    "larger": ([5e16, -5e16, 5e16, 5e16, -5e16, 5e16], [5e16, 5e16, 5e16, 5e16]),
    "(4, 5)": ([0.1, -0.4, 0.3, 0.2, -0.1], [0.3, 0.1, -0.2, 0.4, 0.1]),
    "(7, 1)": ([0.1, -0.4, 0.3, 0.2, -0.1, 0.5, 0.2, 0.1], [0.3]),
    "(1, 6)": ([0.1, -0.4], [0.3, 0.1, -0.2, 0.4, 0.1, -0.2]),
    "(0, 0)": ([0.7], []),
    "(12, 12)": ([0.3] * 13, [0.2, -0.4] * 6),
}


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("form", FORMS)
def test_the_whole_range(form, unit):
    """Every power of two, both signs, in one vector: the same value as alone and in groups."""
    a, b = (torch.tensor(c) for c in UNITS[unit])
    if form == "offset":
        b = torch.cat([torch.tensor([0.3]), b])
    powers = torch.tensor(
        [1.375 * 2.0**k for k in range(-149, 128, 3)], dtype=torch.float64
    ).float()
    x = torch.cat([powers, torch.tensor([0.0, 63.9, 64.1, HUGE, INF])])
    x = torch.cat([x, -x])
    got = fused.forward(x, a, b, Spec(form))
    assert_near(got, Exact(x, a, b, form=form, digits="mpfr").y, "y")
    each = [c.expand(len(x), -1) for c in (a, b)]
    assert torch.equal(fused.forward(x, *each, Spec(form, channel_dim=0)), got)


@pytest.mark.parametrize("m, n", [(5, 4), (0, 0), (0, 2), (3, 0)])
@pytest.mark.parametrize("form", FORMS)
def test_nan_stays_where_it_is(form, m, n, gen):
    a, b = torch.randn(m + 1, generator=gen), torch.randn(n + (form == "offset"), generator=gen)
    x = torch.tensor([1.0, NAN, 1e30, NAN, INF])
    y = fused.forward(x, a, b, Spec(form))
    assert torch.equal(y.isnan(), x.isnan())


def test_ordinary_values_are_those_of_the_reference(gen):
    """Where both use Horner's rule in x they agree bit for bit."""
    a, b = torch.randn(2, 6, generator=gen), torch.randn(2, 4, generator=gen)
    x = torch.randn(3, 8, 5, 2, generator=gen).contiguous(memory_format=torch.channels_last)
    y = fused.forward(x, a, b, Spec())
    assert torch.equal(y, reference.forward(x, a, b, None, Spec()))
    assert y.stride() == x.stride()


def test_only_long_runs_of_a_unit_are_fused():
    x, a = torch.zeros(2, 64, 8, 8), torch.zeros(32, 6)
    last = x.contiguous(memory_format=torch.channels_last)
    assert fused.suits(x, a, Spec()) and not fused.suits(last, a, Spec())
    assert fused.suits(last, a[:2], Spec()) and fused.suits(last, a[0], Spec())


@pytest.fixture
def as_if_on_gpu(monkeypatch):
    """CPU tensors take the way of GPU tensors; Triton interprets the kernels."""
    pytest.importorskip("triton")
    if torch.cuda.is_available():
        pytest.skip("test_cuda.py has the same on this GPU")
    monkeypatch.setattr(gpu, "refuses", lambda x, a, b: gpu.missing())
    torch._dynamo.reset()
    with np.errstate(all="ignore"):  # of the interpreter
        yield
    torch._dynamo.reset()


def graphs_of(f, x, parameters, dy):
    """The operators of the forward and the backward graph that inductor gets, and the results."""
    found = []

    def record(graph, _):
        found.append([str(n.target) for n in graph.graph.nodes if n.op == "call_function"])
        return make_boxed_func(graph)

    def backend(graph, inputs):
        from torch._inductor.decomposition import select_decomp_table

        table = select_decomp_table()
        return aot_autograd(fw_compiler=record, decompositions=table)(graph, inputs)

    y = torch.compile(f, backend=backend, fullgraph=True)(x)
    return found, (y.detach(), *torch.autograd.grad(y, (x, *parameters), dy))


class Chain(nn.Module):
    """Batch norm, unit, residual."""

    def __init__(self, unit):
        super().__init__()
        self.norm, self.unit = nn.BatchNorm1d(8).eval(), unit

    def forward(self, x, act=None):
        return (act or self.unit)(self.norm(x)) + x


def made(kind, **options):
    start = ([0.1, 0.5, 1.0, 0.2], [0.3, -0.4, *[0.1] * (options.get("form") == "offset")])
    return kind(start, degrees=(3, 2), **options)


@pytest.mark.no_poison
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch, used by dynamo itself
@pytest.mark.parametrize("form, groups", [("safe", 1), ("free", 1), ("offset", 2)])
def test_inductor_gets_plain_operations_and_the_kernel_of_backward(as_if_on_gpu, form, groups, gen):
    net = Chain(made(padenet.PAU, form=form, groups=groups))
    x = torch.randn(3, 8, 9, generator=gen, requires_grad=True)
    dy = torch.randn(x.shape, generator=gen)
    parameters = list(net.parameters())
    (forward, backward), got = graphs_of(net, x, parameters, dy)
    assert not [op for op in forward if op.startswith("padenet")]
    assert "aten.copysign.Tensor" in forward or form == "free"
    assert backward.count("padenet.gpu_backward.default") == 1
    y = net(x, lambda x: reference.forward(x, net.unit.a, net.unit.b, None, net.unit.spec))
    want = y.detach(), *torch.autograd.grad(y, (x, *parameters), dy)
    for g, w in zip(got, want, strict=True):
        torch.testing.assert_close(g, w, rtol=1e-4, atol=1e-5)


@pytest.mark.no_poison
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("kind", ["noise", "short runs"])
def test_the_rest_stays_a_call_of_the_kernel(as_if_on_gpu, kind, gen):
    unit = made(padenet.RPAU, alpha=0.1) if kind == "noise" else made(padenet.PAU, groups=8)
    x = torch.randn(3, 8, 2, generator=gen, requires_grad=True)
    parameters = list(unit.parameters())
    (forward, backward), _ = graphs_of(unit, x, parameters, torch.ones_like(x))
    assert forward.count("padenet.gpu_forward.default") == 1
    assert backward.count("padenet.gpu_backward.default") == 1


@pytest.mark.no_poison
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_inductor_makes_one_kernel(gen):
    from torch._inductor import config
    from torch._inductor.utils import run_and_get_code

    a, b = torch.randn(6, generator=gen), torch.randn(4, generator=gen)
    x, r = torch.randn(2, 64, generator=gen)
    x[:6] = torch.tensor([1e20, -1e30, HUGE, INF, -INF, NAN])
    chain = lambda x, a, b: fused.forward(2 * x, a, b, Spec()) + r
    with config.patch(fx_graph_cache=False):  # or there may be no code to see
        got, (code,) = run_and_get_code(torch.compile(chain, fullgraph=True), x, a, b)
    assert code.count("async_compile.cpp") == 1
    torch.testing.assert_close(got, chain(x, a, b), rtol=1e-5, atol=1e-5, equal_nan=True)


def test_import_leaves_inductor_alone():
    code = "import sys, padenet; sys.exit('torch._inductor.decomposition' in sys.modules)"
    assert run([sys.executable, "-c", code]).returncode == 0


def test_a_torch_without_the_table_calls_the_kernel(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch._inductor.decomposition", None)
    assert not fused.teach_inductor()
