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
