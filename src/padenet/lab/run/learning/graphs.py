"""A training step as a CUDA graph: one launch in the place of hundreds."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from padenet.lab.run.learning.batches import Ticket

WARM_UP = 3  # steps, so that every library has its workspace and the optimiser its state


class Graphed:
    """``step(ticket)``, captured once and replayed for every ticket of the same shapes.

    The warm-up trains for real, so what it changed is put back: the first replay starts from
    where the caller stood. State that the warm-up created, as an optimiser's, starts from zero.

    Args:
        step: Does the work, without waiting for the device.
        ticket: One to warm up with.
        changed: The tensors that a step changes in place.
    """

    def __init__(
        self,
        step: Callable[[Ticket], None],
        ticket: Ticket,
        changed: Callable[[], Sequence[Tensor]],
    ):
        device = torch.device("cuda", torch.cuda.current_device())
        self.ticket = tuple(t.to(device, copy=True) for t in ticket)
        before = {id(t): (t, t.detach().clone()) for t in changed()}
        random = torch.cuda.get_rng_state()
        # A lane's own stream: the scratch memory of cuBLAS, whose address a graph keeps, belongs to
        # the stream it was captured on. The default stream cannot be captured.
        stream = torch.cuda.current_stream()
        if stream == torch.cuda.default_stream():
            stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                step(self.ticket)
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        # thread_local: what other threads do meanwhile, such as pinning memory, is no error.
        with torch.cuda.graph(self.graph, stream=stream, capture_error_mode="thread_local"):
            step(self.ticket)
        with torch.no_grad():
            for tensor in changed():
                if id(tensor) in before:
                    tensor.copy_(before[id(tensor)][1])
                else:
                    tensor.zero_()
        torch.cuda.set_rng_state(random)

    def __call__(self, ticket: Ticket) -> None:
        for static, new in zip(self.ticket, ticket, strict=True):
            static.copy_(new, non_blocking=True)
        self.graph.replay()
