"""What ``padenet.stabilize`` does around a step, in the C++ library: ``native/steps.h``.

Contract
    Rows      remembers and holds the coefficients at ``addresses``, each row's its own; counts in
              place.
    shorten   writes over the gradients, any dense CPU tensors, and over ``square`` and ``counts``.
    both      compute in float64, in a fixed order: the same bits for any number of threads.
"""

import struct
from collections.abc import Sequence

import torch
from torch import Tensor

from padenet.core.native import call, missing
from padenet.torch import trust
from padenet.torch.kernels.layout import is_dense
from padenet.torch.kernels.native import DTYPES, refuses, thread_count

_HOLD = struct.Struct("=11Q7q4dq")
_SHORTEN = struct.Struct("=2Q2q3d")
_PART = struct.Struct("=Q2q")


def can_hold(a: Tensor, b: Tensor) -> bool:
    """Whether ``Rows`` takes units with these coefficients."""
    return a.dtype in DTYPES and refuses(a, a, b) is None


class Rows:
    """Units with the same layout, and what holds their steps: ``padenet.torch.trust.hold``."""

    def __init__(self, memory: trust.Memory):
        addresses, old, least, grid, counts, spec, most = memory
        a, b = old
        self.tensors = (addresses, a, b, least, *grid, *counts)
        self.numbers = (
            len(least),
            a.shape[1],
            b.shape[1],
            grid.weight.numel(),
            DTYPES[a.dtype],
            spec.flags.code,
            trust.CUTS,
            spec.q,
            most,
            trust.AT_MOST,
            trust.LEAST_CUT,
        )

    def remember(self) -> None:
        """Copy the coefficients to ``old``."""
        self._call("padenet_remember", 1)

    def hold(self) -> None:
        self._call("padenet_hold", thread_count())

    def _call(self, entry: str, threads: int) -> None:
        # Anew each time: ``share_memory_``, and so a queue of torch, moves the counts of a state.
        places = (t.data_ptr() for t in self.tensors)
        call(entry, _HOLD.pack(*places, *self.numbers, threads))


def can_shorten(grads: Sequence[Tensor]) -> bool:
    """Whether ``shorten`` takes these: dense gradients in CPU memory."""
    return missing() is None and all(
        type(g) is Tensor and g.is_cpu and g.dtype in DTYPES and is_dense(g) for g in grads
    )


def shorten(
    grads: Sequence[Tensor],
    square: Tensor,
    counts: Tensor,
    scale: Tensor | None,
    spike: float,
    decay: float,
) -> None:
    """``padenet.torch.optim.spikes.Spikes.shorten``."""
    head = _SHORTEN.pack(
        square.data_ptr(),
        counts.data_ptr(),
        len(grads),
        thread_count(),
        spike,
        decay,
        1.0 if scale is None else float(scale),
    )
    parts = [_PART.pack(g.data_ptr(), g.numel(), DTYPES[g.dtype]) for g in grads]
    if call("padenet_shorten", b"".join([head, *parts])):
        for g in grads:  # autograd may have saved them
            torch.autograd.graph.increment_version(g)
