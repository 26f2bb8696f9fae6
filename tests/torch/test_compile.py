"""``torch.compile``: one graph without breaks, eager's values, the kernel's operators inside."""

import pytest
import torch
from formula import CASES, Case, assert_near, formula, problem
from functorch.compile import make_boxed_func
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.testing import CompileCounterWithBackend
from torch.func import grad, jvp, vmap

import padenet
from padenet.core.forms import Spec
from padenet.torch import functional
from padenet.torch.kernels import native

pytestmark = [
    pytest.mark.no_poison,
    pytest.mark.filterwarnings("ignore:padenet runs on plain PyTorch"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of torch, used by dynamo itself
]


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture(params=["native", "reference"])
def graph_backend(request, monkeypatch):
    """What compiled code calls: the kernel, or the formula as where there is no kernel."""
    if request.param == "reference":
        monkeypatch.setattr(native, "missing", lambda: "left out by the test")
    elif reason := native.missing():
        pytest.skip(f"no native kernel: {reason}")
    return request.param


def compiled(f, backend="aot_eager", **options):
    return torch.compile(f, backend=backend, fullgraph=True, **options)


def gradients(f, args):
    args = [t.detach().clone().requires_grad_() for t in args]
    y = f(*args)
    dy = torch.cos(torch.arange(y.numel(), dtype=torch.float64)).reshape(y.shape).to(y.dtype)
    return y.detach(), *torch.autograd.grad(y, args, dy)


SMALL = Case("safe", q=0.5, groups=2, degrees=(1, 1))  # the formula makes a large graph


def cases(graph_backend):
    return CASES.values() if graph_backend == "native" else [SMALL]


def test_forward_and_backward(graph_backend):
    for case in cases(graph_backend):
        f = lambda x, a, b, case=case: padenet.rational(x, a, b, **case.options)
        g = lambda x, a, b, case=case: formula(x, a, b, **case.options)
        args = problem(case, (3, 4, 2))
        expected = gradients(g, args)
        assert_near(gradients(compiled(f), args), expected, 256)
        assert_near(gradients(f, args), expected, 256)


def test_bfloat16_input_with_float32_coefficients(graph_backend):
    for case in cases(graph_backend):
        f = lambda x, a, b, case=case: padenet.rational(x, a, b, **case.options)
        x, a, b = problem(case, (5, 4), torch.float32)
        actual = gradients(compiled(f), (x.bfloat16(), a, b))
        expected = gradients(f, (x.bfloat16(), a, b))
        assert [t.dtype for t in actual] == [torch.bfloat16, torch.bfloat16, a.dtype, b.dtype]
        assert_near(actual, expected, 64)
        assert_near(actual[:2], expected[:2], 1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        start = ((0.1, 1.0), (0.5,))
        self.first, self.last = nn.Linear(6, 8), nn.Linear(8, 3)
        self.pau = padenet.PAU(start, degrees=(1, 1), groups=4)
        self.rpau = padenet.RPAU(start, degrees=(1, 1), alpha=0.3)

    def forward(self, x):
        return self.last(self.rpau(self.pau(self.first(x))))


def parameter_gradients(call, net, x):
    net.zero_grad()
    torch.manual_seed(3)  # the noise of RPAU
    call(x).square().sum().backward()
    return [p.grad.clone() for p in net.parameters()]


def test_model_with_dynamic_batch():
    """Sizes 3, 5, 8, 13: one graph for the first, one for all others."""
    torch.manual_seed(0)
    net, counter = Net(), CompileCounterWithBackend("aot_eager")
    step = compiled(net, counter)
    for n in (3, 5, 8, 13):
        x = torch.randn(n, 6)
        expected = parameter_gradients(net, net, x)
        assert_near(parameter_gradients(step, net, x), expected, 64)
    assert counter.frame_count == 2


def test_inductor():
    """Real code generation, with an unknown batch size."""
    torch.manual_seed(0)
    net = Net().eval()
    step = compiled(net, "inductor", dynamic=True)
    for n in (4, 7):
        x = torch.randn(n, 6)
        expected = parameter_gradients(net, net, x)
        assert_near(step(x).detach(), net(x).detach(), 64)
        assert_near(parameter_gradients(step, net, x), expected, 256)


def test_inductor_draws_the_same_noise_in_backward(graph_backend):
    """With F = x (1 + u) the slope is 1 + u, so y = x dy/dx, element for element."""
    unit = padenet.RPAU(((0.0, 1.0), ()), degrees=(1, 0), alpha=0.5)
    call = compiled(unit, "inductor")
    x = torch.linspace(1, 2, 300).requires_grad_()
    rows = []
    for _ in range(2):
        y = call(x)
        (slope,) = torch.autograd.grad(y.sum(), x)
        torch.testing.assert_close(y, x * slope)
        assert slope.min() < 0.6 and slope.max() > 1.4
        rows.append(slope)
    assert not torch.equal(*rows)


def test_given_key_gives_eagers_noise(graph_backend):
    args = problem(SMALL, (6, 4), torch.float32)
    key = torch.tensor(2**60 + 12345)
    f = lambda x, a, b: functional.apply(x, a, b, key, Spec("safe", 0.5, alpha=0.2))
    assert_near(gradients(compiled(f), args), gradients(f, args), 64)


def test_seed_repeats_compiled_noise():
    unit = padenet.RPAU(alpha=0.3)
    call, x = compiled(unit), torch.randn(40)
    draws = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        draws.append(call(x).detach())
    torch.manual_seed(1)
    assert torch.equal(draws[0], draws[1]) and not torch.equal(draws[0], draws[2])
    assert_near(draws[0], unit(x).detach(), 16)


def graphs_of(f, args):
    """The operators of the forward and of the backward graph."""
    found = []

    def record(graph, _):
        found.append({str(n.target) for n in graph.graph.nodes if n.op == "call_function"})
        return make_boxed_func(graph)

    gradients(compiled(f, aot_autograd(fw_compiler=record)), args)
    return found


def test_graph_calls_the_kernel(graph_backend):
    forward, backward = graphs_of(padenet.rational, problem(SMALL, dtype=torch.float32))
    names = ("padenet.native_forward.default", "padenet.native_backward.default")
    for name, ops in zip(names, (forward, backward), strict=True):
        assert (name in ops) == (graph_backend == "native")
        assert ("aten.div.Tensor" in ops) == (graph_backend == "reference")


@pytest.mark.skipif(native.missing() is not None, reason="no native kernel")
@pytest.mark.parametrize("alpha", [0.0, 0.1])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_operators_pass_opcheck(case, alpha):
    x, a, b = problem(case, dtype=torch.float32)
    key = torch.tensor(7) if alpha else None
    spec = Spec(case.form, case.q, case.channel_dim, alpha)
    ops = torch.ops.padenet
    torch.library.opcheck(ops.native_forward.default, (x, a, b, key, *spec))
    torch.library.opcheck(ops.native_backward.default, (torch.ones_like(x), x, a, b, key, *spec))


def test_layout_of_the_result():
    x = torch.randn(2, 4, 3, 5).contiguous(memory_format=torch.channels_last)
    unit = Net().pau
    y = compiled(unit)(x)
    assert y.stride() == x.stride()
    assert_near(y.detach(), unit(x).detach(), 16)


def test_double_backward_is_refused():
    x, a, b = problem(SMALL, dtype=torch.float32)
    x.requires_grad_()
    y = compiled(padenet.rational)(x, a, b)
    (dx,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="does not currently support double backward"):
        torch.autograd.grad(dx.sum(), x)


INSIDE = {
    "vmap": lambda f: lambda x, a, b: vmap(f, (0, None, None))(x[:, None], a, b),
    "grad": lambda f: grad(lambda *p: f(*p).square().sum()),
    "jvp": lambda f: lambda *p: jvp(f, p, p)[1],
    "vmap of grad": lambda f: (
        lambda x, a, b: vmap(grad(lambda *p: f(*p).square().sum()), (0, None, None))(
            x[:, None], a, b
        )
    ),
}


@pytest.mark.parametrize("transform", INSIDE.values(), ids=INSIDE)
def test_transform_inside_compile(transform):
    """The values, and the gradients through them."""
    args = problem(Case(groups=2, degrees=(1, 1)))
    actual = gradients(compiled(transform(padenet.rational)), args)
    assert_near(actual, gradients(transform(formula), args))


AROUND = {
    "vmap": vmap,
    "grad": lambda f: grad(lambda x: f(x).sum()),
    "jvp": lambda f: lambda x: jvp(f, (x,), (x,)),
}


@pytest.mark.parametrize("transform", AROUND.values(), ids=AROUND)
def test_transform_around_compile(transform):
    """Right, or refused where a whole graph was asked for."""
    x, a, b = problem(Case())
    f = lambda x: padenet.rational(x, a, b)
    expected = transform(lambda x: formula(x, a, b))(x)
    assert_near(transform(torch.compile(f, backend="aot_eager"))(x), expected)
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported, match="from eager mode is not supported"):
        transform(compiled(f))(x)


def test_errors_reach_the_user():
    with pytest.raises(Exception, match="groups=4 does not divide the 6 channels"):
        torch.compile(padenet.PAU(groups=4), backend="aot_eager")(torch.randn(2, 6))
