"""The same numbers on a GPU as on the CPU, noise included."""

import pytest
import torch

from padenet import PAU, RPAU
from padenet.spec import FORMS

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
    from padenet.kernels.gpu import sweeps

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


@pytest.mark.no_poison
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
