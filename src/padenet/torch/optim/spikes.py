r"""A gradient far out of line with those before it is shortened: what starts a runaway is stopped.

Near the highest rate that a net trains at, its loss has spikes. With ReLU units die then, and
training continues; a unit that has a slope on both sides passes the spike on, and a few steps later
all is infinite. So the norm g of all gradients of an optimiser is kept below ``SPIKE`` times its
running root mean square s:

    g <- min(g, 3 s)        s² <- d s² + (1 - d) g²        d = min(DECAY, 1 - 1/t)

The shortened norm enters s: a spike hardly moves it, a lasting change does in some 20 steps. What
is not finite is left to the loop, which knows what to do (``GradScaler`` skips the step). So is a
norm that float32 does not hold, above 1e19.
"""

from collections.abc import Iterable, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from padenet.torch.kernels import gpu, native_steps

SPIKE = 3.0
DECAY = 0.99
_SHORT = (torch.float16, torch.bfloat16)


class Spikes:
    """The running size of an optimiser's gradients, and how often they were shortened.

    All of it stays on the gradients' device, so that nothing waits and a CUDA graph takes it along.
    """

    def __init__(self, spike: float, device: torch.device):
        self.spike = spike
        self.to(device, torch.zeros((), dtype=torch.float64), torch.zeros(4, dtype=torch.int64))

    def to(self, device: torch.device, square: Tensor, counts: Tensor) -> None:
        """Go on from these, on ``device``."""
        self.square, self.counts = square.to(device), counts.to(device)
        self.seen, self.steps, self.cut, self.since = self.counts
        self.on_gpu = _make_shortener(device)

    def state_dict(self) -> dict[str, Tensor]:
        return {"square": self.square, "counts": self.counts}

    def load(self, other: "Spikes") -> None:
        """Go on where ``other`` stands."""
        self.square.copy_(other.square)
        self.counts.copy_(other.counts)

    def shorten(self, parameters: Iterable[Tensor], scale: Tensor | None = None) -> None:
        """The gradients of ``parameters``, in place.

        Args:
            scale: What they were multiplied by, which their optimiser divides by.
        """
        grads = [_values(p) for p in parameters if p.grad is not None and p.grad.numel()]
        if not grads:
            return
        device = grads[0].device
        if self.square.device != device:
            self.to(device, self.square, self.counts)
        rest = self.square, self.counts, scale, self.spike, DECAY
        if native_steps.can_shorten(grads):
            native_steps.shorten(grads, *rest)
        elif self.on_gpu is not None and self.on_gpu.takes(grads):
            self.on_gpu(grads, *rest)
        else:
            self._shorten(grads, scale)

    def _shorten(self, grads: Sequence[Tensor], scale: Tensor | None) -> None:
        """In operations of torch: any gradients."""
        size = _norm(grads, self.square.device)
        if scale is not None:
            size = size / scale.to(size)
        most = self.spike * self.square.sqrt()
        finite = size.square().float().isfinite()
        over = (self.seen > 0) & (size > most) & finite
        counts = finite & (size > 0)
        self.seen += counts
        decay = (1 - 1 / self.seen.double().clamp(min=1)).clamp(max=DECAY)
        square = torch.where(over, most, size).square()
        self.square.copy_(
            torch.where(counts, decay * self.square + (1 - decay) * square, self.square)
        )
        self.steps += 1
        self.cut += over
        self.since.copy_(torch.where((self.since == 0) & over, self.steps, self.since))
        if over.device.type != "cpu" or over:
            _scale(grads, torch.where(over, most / size, 1.0))


def _make_shortener(device: torch.device) -> Any:
    """What shortens gradients on a GPU by kernels, or None."""
    if gpu.refuses_device(device) is not None:
        return None
    from padenet.torch.kernels.gpu.steps import Shortener

    return Shortener(device)


def _values(p: Tensor) -> Tensor:
    """What its gradient is made of, to be multiplied in place: of a sparse one, that of an
    embedding, the rows that it has; of an expanded one, a copy that it gets."""
    grad = cast(Tensor, p.grad)
    if grad.is_sparse:
        p.grad = grad.coalesce()
        return p.grad._values()
    if not grad.is_contiguous() and 0 in grad.stride():
        p.grad = grad = grad.clone(memory_format=torch.contiguous_format)
    return grad


def _alike(grads: Iterable[Tensor]) -> Iterable[list[Tensor]]:
    """By device and kind: an operation takes no mixed lists."""
    found: dict[Any, list[Tensor]] = {}
    for g in grads:
        found.setdefault((g.device, getattr(g, "device_mesh", None)), []).append(g)
    return found.values()


def _norm(grads: Sequence[Tensor], device: torch.device) -> Tensor:
    squares = []
    for some in _alike(grads):
        some = [g.float() if g.dtype in _SHORT else g for g in some]  # norms in 16 bits are rough
        norm: Any = nn.utils.get_total_norm(some)
        norm = norm.full_tensor() if hasattr(norm, "full_tensor") else norm
        squares.append(norm.to(device, torch.float64).square())
    return sum(squares, torch.zeros_like(squares[0])).sqrt()


def _scale(grads: Sequence[Tensor], factor: Tensor) -> None:
    for some in _alike(grads):
        near = factor.to(some[0].device)
        torch._foreach_mul_([g.to_local() if hasattr(g, "to_local") else g for g in some], near)
