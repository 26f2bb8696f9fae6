"""The same numbers on a GPU as on the CPU, noise included; graphs, streams, ``torch.compile``."""

import re

import pytest
import torch
from exact import Exact, assert_near
from torch import nn

from padenet import PAU, RPAU, rational
from padenet.core.forms import FORMS

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


def on(device: str, unit: torch.nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    """y, dx, da, db computed on ``device`` from the seed 0, on the CPU."""
    unit = unit.to(device)
    unit.zero_grad()
    x = x.detach().to(device).requires_grad_()
    torch.manual_seed(0)
    y = unit(x)
    y.sum().backward()
    return [t.detach().cpu() for t in (y, x.grad, unit.a.grad, unit.b.grad)]


@pytest.mark.filterwarnings("ignore:padenet runs on plain PyTorch:RuntimeWarning")  # the CPU's part
@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("kind", [PAU, RPAU])
@pytest.mark.parametrize("form", FORMS)
def test_gpu_agrees_with_cpu(form, kind, groups, gen):
    a = torch.randn(6, generator=gen)
    b = torch.rand(4 + (form == "offset"), generator=gen)
    options = {"alpha": 0.3} if kind is RPAU else {}
    unit = kind((a, b), form=form, groups=groups, dtype=torch.float64, **options)
    x = torch.randn(3, 8, 5, 7, generator=gen, dtype=torch.float64).abs()
    x[0, 0, 0, :2] = torch.tensor([1e30, 1e300])
    for layout in (torch.contiguous_format, torch.channels_last):
        laid_out = x.contiguous(memory_format=layout)
        for gpu, cpu in zip(on("cuda", unit, laid_out), on("cpu", unit, laid_out), strict=True):
            torch.testing.assert_close(gpu, cpu, rtol=1e-12, atol=1e-12)


def whole(unit: torch.nn.Module, x: torch.Tensor, dy: torch.Tensor) -> list[torch.Tensor]:
    y = unit(x)
    return [y.detach(), *torch.autograd.grad(y, (x, unit.a, unit.b), dy)]


def inputs(*shape: int) -> list[torch.Tensor]:
    return [torch.randn(shape, device="cuda", requires_grad=i == 0) for i in range(2)]


@pytest.mark.no_poison
@pytest.mark.parametrize("kind", [PAU, RPAU])
def test_cuda_graph(kind):
    """Replays compute from what the inputs hold then; noise is drawn anew each time."""
    unit, (x, dy) = kind(alpha=0.3) if kind is RPAU else kind(), inputs(64, 3000)
    unit = unit.cuda()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        whole(unit, x, dy)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = whole(unit, x, dy)
    seen = []
    for _ in range(2):
        with torch.no_grad():
            x.normal_()
            unit.a.mul_(1.5)
        graph.replay()
        if kind is PAU:
            assert all(map(torch.equal, captured, whole(unit, x, dy)))
        graph.replay()
        seen.append(captured[0].clone())
        graph.replay()
        assert torch.equal(seen[-1], captured[0]) == (kind is PAU)


@pytest.mark.no_poison
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_side_streams_and_no_waiting():
    unit, (x, dy) = PAU(groups=8).cuda(), inputs(500, 64)
    want = whole(unit, x, dy)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        with torch.cuda.stream(torch.cuda.Stream()):
            got = whole(unit, x, dy)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.cuda.synchronize()
    assert all(map(torch.equal, got, want))


@pytest.mark.no_poison
def test_a_new_batch_size_compiles_nothing():
    from padenet.torch.kernels.gpu import sweeps

    def compiled() -> int:
        kernels = (sweeps.forward, sweeps.backward, sweeps.total)
        return sum(len(c[0]) for k in kernels for c in k.device_caches.values())

    for unit, tail in ((PAU(), (64, 14, 14)), (PAU(groups=64), (64, 14, 14)), (PAU(), (1001,))):
        unit = unit.cuda()
        whole(unit, *inputs(300, *tail))
        before = compiled()
        for batch in (301, 512, 777):
            whole(unit, *inputs(batch, *tail))
        assert compiled() == before


def compiling(test):
    """Marks of a test that compiles. torch 2.11 uses what it has deprecated itself."""
    ignored = "ignore:.torch.jit.script_method. is deprecated:DeprecationWarning"
    return pytest.mark.no_poison(pytest.mark.filterwarnings(ignored)(test))


@compiling
@pytest.mark.parametrize("kind", [PAU, RPAU])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_compiled_chain(kind, dtype):
    """The same values as in eager mode; noise only has to be there."""
    torch.manual_seed(0)
    unit, (x, dy) = kind(groups=4).cuda(), inputs(8, 16, 9, 9)
    x = x.detach().to(dtype).contiguous(memory_format=torch.channels_last).requires_grad_()
    dy = dy.to(dtype)
    chain = lambda t: unit(2 * t) + 1
    y = torch.compile(chain, fullgraph=True)(x)
    got = y.detach(), *torch.autograd.grad(y, (x, unit.a, unit.b), dy)
    unit.eval()
    y = chain(x)
    want = y.detach(), *torch.autograd.grad(y, (x, unit.a, unit.b), dy)
    tolerance = 0.1 if kind is RPAU else 2e-2 if dtype == torch.bfloat16 else 1e-4
    for g, w in zip(got, want, strict=True):
        assert (g - w).norm() <= tolerance * w.norm()
    if kind is RPAU:
        assert not torch.equal(got[0], want[0])


class Block(nn.Module):
    """Convolution, batch norm, unit and residual."""

    def __init__(self, unit: nn.Module, conv: bool):
        super().__init__()
        self.conv = nn.Conv2d(32, 32, 3, padding=1, bias=False) if conv else nn.Identity()
        self.norm, self.unit = nn.BatchNorm2d(32), unit

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.unit(self.norm(self.conv(x))) + x


def compile_step(net: nn.Module, x: torch.Tensor, dy: torch.Tensor):
    """y and the gradients of x and all parameters, and the code made for forward and backward."""
    from torch._inductor.utils import fresh_inductor_cache, run_and_get_code

    def step() -> list[torch.Tensor]:
        y = torch.compile(net, fullgraph=True)(x)
        return [y.detach(), *torch.autograd.grad(y, [x, *net.parameters()], dy)]

    with fresh_inductor_cache():
        results, codes = run_and_get_code(step)
    assert len(codes) == 2, "one graph forward and one backward"
    return results, *codes


def calls(code: str, operator: str) -> int:
    """How often the code calls a kernel of ours."""
    return code.count(f"= torch.ops.padenet.{operator}.default(")


def kernels(code: str) -> int:
    """How many kernels of inductor's own the code launches."""
    return len(re.findall(r"triton_\w+\.run\(", code))


BLOCKS = {  # unit, options, layout, whether forward is fused
    "one unit": (PAU, {}, torch.contiguous_format, True),
    "one unit, channels_last": (PAU, {}, torch.channels_last, True),
    "groups in long runs": (PAU, {"groups": 32}, torch.contiguous_format, True),
    "groups in short runs": (PAU, {"groups": 32}, torch.channels_last, False),
    "noise": (RPAU, {"alpha": 0.01}, torch.contiguous_format, False),
}


@compiling
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind, options, layout, fuses", BLOCKS.values(), ids=list(BLOCKS))
def test_forward_is_fused_and_backward_is_our_kernel(kind, options, layout, fuses, dtype):
    """Batch norm in eval mode, unit and residual are one kernel; the gradients are eager's."""
    torch.manual_seed(0)
    net = Block(kind(**options), conv=False).cuda().eval()
    net.unit.train()
    x, dy = (t.detach().to(dtype).contiguous(memory_format=layout) for t in inputs(8, 32, 12, 12))
    net.norm.to(dtype)
    x.requires_grad_()
    got, forward, backward = compile_step(net, x, dy)
    assert calls(forward, "gpu_forward") == (not fuses)
    assert calls(forward, "gpu_forward_fused") == 0, "inductor did not take it apart"
    assert calls(backward, "gpu_backward") == 1
    if fuses:
        assert kernels(forward) == 1
    net.eval()  # without noise
    y = net(x)
    want = [y.detach(), *torch.autograd.grad(y, [x, *net.parameters()], dy)]
    tolerance = 0.1 if kind is RPAU else 2e-2 if dtype == torch.bfloat16 else 1e-4
    for g, w in zip(got, want, strict=True):
        assert g.stride() == w.stride() and (g - w).norm() <= tolerance * w.norm()


@compiling
def test_compiled_convolution_batch_norm_unit_residual():
    """In training mode under autocast, as in a ResNet."""
    torch.manual_seed(0)
    net = Block(PAU(), conv=True).cuda().to(memory_format=torch.channels_last)
    x, dy = (t.detach().contiguous(memory_format=torch.channels_last) for t in inputs(8, 32, 9, 9))
    x.requires_grad_()
    with torch.autocast("cuda", torch.bfloat16):
        got, forward, backward = compile_step(net, x, dy)
        y = net(x)
        want = [y.detach(), *torch.autograd.grad(y, [x, *net.parameters()], dy)]
    assert calls(forward, "gpu_forward") == calls(forward, "gpu_forward_fused") == 0
    assert calls(backward, "gpu_backward") == 1
    for g, w in zip(got, want, strict=True):
        assert (g.float() - w.float()).norm() <= 3e-2 * w.float().norm()


UNITS = {  # of degrees (5, 4)
    "lrelu": ([0.0336, 0.505, 1.6534, 2.0099, 0.9319, 0.1524], [0.0, 3.9801, 0.0, 0.3018]),
    "b_4 = 0": ([0.1, -0.5, 1.7, 2.0, 0.9, 0.2], [0.1, -4.0, -0.5, 0.0]),
    "a_5 = b_4 = 0": ([0.3, 1.0, -0.2, 0.1, 0.4, 0.0], [0.2, -0.3, 0.5, 0.0]),
    "identity": ([0.0, 1.0, 0.0, 0.0, 0.0, 0.0], [0.0] * 4),
    "all zero": ([0.0] * 6, [0.0] * 4),
    "tiny a_5, b_4": ([0.3, 1.0, -0.2, 0.1, 0.4, 1e-20], [0.2, -0.3, 0.5, -1e-20]),
    "large": ([1e8, -2e8, 3e8, 1e8, -1e8, 2e8], [1e8, 2e8, -1e8, 3e8]),
}


@compiling
@pytest.mark.parametrize(
    "form, dtype", [*((f, torch.float32) for f in FORMS), ("safe", torch.bfloat16)]
)
def test_compiled_forward_is_right_at_every_x(form, dtype):
    """Each unit over the whole range of powers of two, largest and infinite x included."""
    values = [1.375 * 2.0**k for k in range(-149, 128, 3)]
    values = torch.tensor([*values, 0.0, 63.9, 64.1, torch.finfo(dtype).max, float("inf")])
    x = torch.cat([values, -values]).to(dtype).repeat(len(UNITS), 1)
    a, b = (torch.tensor(c) for c in zip(*UNITS.values(), strict=True))
    if form == "offset":
        b = torch.cat([torch.full((len(b), 1), 0.3), b], 1)
    options = {"form": form, "channel_dim": 0}
    f = torch.compile(lambda x, a, b: rational(x, a, b, **options), fullgraph=True)
    y = f(*(t.cuda() for t in (x, a, b))).cpu()
    assert_near(y, Exact(x, a, b, digits="mpfr", **options).y, "unit, element")
    x[:, 5] = float("nan")
    nan = f(*(t.cuda() for t in (x, a, b))).cpu()
    assert torch.equal(nan.isnan(), x.isnan()) and torch.equal(nan[:, 6:], y[:, 6:])


@compiling
def test_compiled_with_an_unknown_batch_size():
    torch.manual_seed(0)
    net = Block(PAU(groups=2), conv=False).cuda()
    step = torch.compile(net, fullgraph=True, dynamic=True)
    for batch in (3, 5, 8):
        x, dy = inputs(batch, 32, 7, 7)
        for g, w in zip(
            *(torch.autograd.grad(f(x), (x, net.unit.a, net.unit.b), dy) for f in (step, net)),
            strict=True,
        ):
            assert (g - w).norm() <= 1e-4 * w.norm()


@pytest.mark.no_poison
def test_more_elements_than_32_bits_count():
    n = 2**31 + 19
    if torch.cuda.mem_get_info()[0] < 30 * 2**30:
        pytest.skip("needs 30 GiB of GPU memory")
    x = torch.full((n,), 0.5, dtype=torch.bfloat16, device="cuda")
    x[-1], x[2**31] = 1.0, -1.0
    unit = PAU().cuda()
    x.requires_grad_()
    y = unit(x)
    y.backward(torch.ones((), dtype=x.dtype, device="cuda").expand(n))
    da = unit.a.grad[0].item()
    few = torch.tensor([0.5, 1.0, -1.0], dtype=x.dtype, device="cuda", requires_grad=True)
    want = unit(few)
    want.sum().backward()
    at = torch.tensor([12345, n - 1, 2**31], device="cuda")
    assert torch.equal(y[at], want) and torch.equal(x.grad[at], few.grad)
    powers = few.detach().double()[:, None] ** torch.arange(1, 5, device="cuda")
    Q = 1 + (powers @ unit.b.detach().double()).abs()
    torch.testing.assert_close(da, ((n - 2) / Q[0] + 1 / Q[1] + 1 / Q[2]).item(), rtol=1e-5, atol=0)
