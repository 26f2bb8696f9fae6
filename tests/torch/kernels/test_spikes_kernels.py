"""The kernels that shorten gradients, against operations of torch."""

import pytest
import torch
from kernels_of_steps import find_steps

from padenet.torch.optim.spikes import DECAY, SPIKE, Spikes

MIXES = {
    "float32": [torch.float32] * 4,
    "float64": [torch.float64] * 4,
    "mixed": [torch.float32, torch.bfloat16, torch.float16, torch.float64],
}


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning", "ignore:invalid:RuntimeWarning")
@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("name", ["native", "gpu"])
def test_the_kernels_do_the_same(name, mix):
    """As operations of torch on the same numbers in float64. The factor is rounded to float32, and
    the result to its dtype.

    Tensors of awkward sizes, one transposed, and gradients that are scaled, zero and not finite.
    """
    steps, device = find_steps(name)
    shapes = (3,), (70, 1000), (1,), (33, 257)
    fast, plain = (Spikes(SPIKE, torch.device(device)) for _ in range(2))
    shorten = steps.shorten if name == "native" else steps.Shortener(torch.device(device))
    draw = torch.Generator().manual_seed(0)
    scale = torch.tensor(8.0, device=device)
    for size in (1.0, 2.0, 100.0, 0.0, float("inf"), 1.0, float("nan"), 40.0, 1.0):
        grads = [
            (torch.randn(shape, generator=draw) * size / 300).to(device, dtype)
            for shape, dtype in zip(shapes, MIXES[mix], strict=True)
        ]
        grads[1] = grads[1].t().contiguous().t()
        same = [g.to(torch.float64, copy=True) for g in grads]
        shorten(grads, fast.square, fast.counts, scale, SPIKE, DECAY)
        plain._shorten(same, scale)
        for g, s in zip(grads, same, strict=True):
            rtol = 2**-23 + torch.finfo(g.dtype).eps
            atol = torch.finfo(g.dtype).tiny * torch.finfo(g.dtype).eps  # of subnormal numbers
            torch.testing.assert_close(g.double(), s, rtol=rtol, atol=atol, equal_nan=True)
        assert torch.equal(fast.counts, plain.counts)
        torch.testing.assert_close(fast.square, plain.square, rtol=1e-12, atol=0)
    assert fast.cut == 2


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_native_kernel_gives_the_same_bits_for_any_number_of_threads(threads):
    steps, _ = find_steps("native")
    torch.set_num_threads(threads)
    draw = torch.Generator().manual_seed(0)
    spikes, other = (Spikes(SPIKE, torch.device("cpu")) for _ in range(2))
    for size in (1.0, 1.0, 50.0):
        g = torch.randn(700_001, generator=draw) * size
        same = g.clone()
        steps.shorten([g], spikes.square, spikes.counts, None, SPIKE, DECAY)
        torch.set_num_threads(1)
        steps.shorten([same], other.square, other.counts, None, SPIKE, DECAY)
        torch.set_num_threads(threads)
        assert torch.equal(g, same)
    assert torch.equal(spikes.square, other.square)
    assert spikes.cut == 1


def test_many_tables_of_addresses_are_dropped(monkeypatch):
    """Gradients at new addresses in every step take no more memory than KEPT tables."""
    steps, device = find_steps("gpu")
    monkeypatch.setattr(steps, "KEPT", 4)
    shorten = steps.Shortener(torch.device(device))
    spikes = Spikes(SPIKE, torch.device(device))
    grads = [torch.full((5,), 1.0, device=device) for _ in range(11)]
    for g in [*grads, 100 * grads[0]]:
        shorten([g], spikes.square, spikes.counts, None, SPIKE, DECAY)
        assert len(shorten.tables) <= 4
    assert spikes.steps == 12 and spikes.cut == 1
    torch.testing.assert_close(g, torch.full_like(g, 3.0))
