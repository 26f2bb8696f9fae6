"""The unit in plain PyTorch operations, for whatever has no kernel: few passes, piece by piece.

Contract
    x, dy   dense in some order of their dims, read in memory order; anything else is copied first.
    y, dx   laid out as x. Besides them only buffers of some pieces.
    pieces  x is cut into pieces that stay in the cache of a core and are too small for torch to
            share them out: threads that meet after each operation would cost more than they save.
    far     Elements whose powers might overflow, and everything with noise or with coefficients
            too large for any x, are left to ``padenet.torch.reference``.
    order   Sums within a piece by torch, then from piece to piece in float64: the same bits for any
            number of threads.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from padenet.core.forms import Spec
from padenet.core.formula import edge
from padenet.torch import reference
from padenet.torch.kernels.layout import memory_order

PIECE = 1 << 15  # elements at a time, the most that torch leaves to one thread
SHORTEST = 64  # elements of a unit in a piece, at least where it has so many
AT_ONCE = 1 << 22  # elements at a time on other devices, whose every operation is launched


def forward(x: Tensor, a: Tensor, b: Tensor, key: Tensor | None, spec: Spec) -> Tensor:
    limit = _limit(x, a, b, key, spec)
    if limit is None:
        return reference.forward(x, a, b, key, spec)
    order = memory_order(x)
    if order is None:
        return forward(x.clone(), a, b, key, spec)
    y = torch.empty_like(x)
    units = _Units(x, a, b, order, spec)
    run = _Pieces(units, y, limit, spec, 3)
    for piece in units.pieces():
        run.forward(piece)
    return y


def backward(
    dy: Tensor, x: Tensor, a: Tensor, b: Tensor, key: Tensor | None, spec: Spec
) -> tuple[Tensor, Tensor, Tensor]:
    limit = _limit(x, a, b, key, spec)
    if limit is None:
        return reference.backward(dy, x, a, b, key, spec)
    order = memory_order(x)
    if order is None:
        return backward(dy, x.clone(), a, b, key, spec)
    if dy.stride() != x.stride():
        dy = torch.empty_like(x).copy_(dy)
    dx = torch.empty_like(x)
    units = _Units(x, a, b, order, spec)
    run = _Pieces(units, dx, limit, spec, 8)
    for piece in units.pieces():
        run.backward(piece, units.view(dy))
    sums = run.sums
    if not sums.isfinite().all() and dy.isfinite().all() and not x.isnan().any():
        exact, da, db = reference.backward(dy, x, a, b, key, spec)  # terms overflow, sums need not
        return torch.where(dx.isfinite(), dx, exact), da, db
    da, db = (
        s.T.reshape(c.shape).to(c.device, c.dtype).contiguous()
        for s, c in zip(sums.split((a.shape[-1], b.shape[-1])), (a, b), strict=True)
    )
    return dx, da, db


def _limit(x: Tensor, a: Tensor, b: Tensor, key: Tensor | None, spec: Spec) -> float | None:
    """Of |x|, below which plain arithmetic is right; None: leave all to the reference."""
    if key is not None or not x.numel() or any(t.is_meta for t in (x, a, b)):
        return None
    if x.is_cuda and torch.cuda.is_current_stream_capturing():  # no number may be looked at
        return None
    a, b = (c.detach().to(reference.compute_dtype(x)) for c in (a, b))
    d = [torch.zeros_like(a[..., 0])] * (1 - spec.constant) + list(b.unbind(-1))
    limit = float(edge(torch, a.unbind(-1), d, spec.q).min())
    return None if limit < 0 else limit


Piece = tuple[slice, slice, slice]  # of (outer, groups, inner)


class _Units:
    """``x`` as ``(outer, groups, inner)`` in memory order, and the coefficients beside it."""

    def __init__(self, x: Tensor, a: Tensor, b: Tensor, order: Sequence[int], spec: Spec):
        self.dtype, self.device = reference.compute_dtype(x), x.device
        self.groups = a.shape[0] if a.ndim == 2 else 1
        inner = x.numel()
        if self.groups > 1:
            c = spec.channel_dim % x.ndim
            after = x.stride(c) if order else x[(0,) * (c + 1)].numel()
            inner = x.shape[c] // self.groups * after
        self.shape = x.numel() // (self.groups * inner), self.groups, inner
        self.x = self.view(x)
        self.a, self.b = (
            c.detach().to(self.dtype).reshape(self.groups, c.shape[-1]) for c in (a, b)
        )

    def view(self, t: Tensor) -> Tensor:
        return t.as_strided((t.numel(),), (1,)).view(self.shape)

    def pieces(self) -> Iterator[Piece]:
        outer, groups, inner = self.shape
        size = PIECE if self.device.type == "cpu" else AT_ONCE
        longest = max(size // groups, SHORTEST)  # of what one unit reads
        step = max(longest // inner, 1)  # rows
        width = -(-inner // -(-inner // longest))  # equal parts of a row that is too long
        for i in range(0, outer, step):
            for j in range(0, inner, width):
                yield slice(i, i + step), slice(None), slice(j, j + width)


class _Pieces:
    """Forward and backward of a piece, in buffers that all pieces share."""

    def __init__(self, units: _Units, out: Tensor, limit: float, spec: Spec, buffers: int):
        self.units, self.out, self.limit, self.spec = units, units.view(out), limit, spec
        self.buffers, self.room = buffers, units.x.new_empty(0, dtype=units.dtype)
        self.a = [c[:, None] for c in units.a.unbind(1)]
        self.d = [c[:, None] for c in units.b.unbind(1)]
        if spec.flags.per_term:
            self.d = [c.abs() for c in self.d]
        if not spec.constant:
            self.d.insert(0, torch.zeros_like(self.a[0]))
        width = units.a.shape[1] + units.b.shape[1]
        self.sums = torch.zeros(width, units.groups, dtype=torch.float64)

    def forward(self, piece: Piece) -> None:
        (x, P, A), far = self._take(piece, self.units.x)
        _horner(self.a, x, P)
        _horner(self.d, x.abs() if self.spec.flags.per_term else x, A)
        if self.spec.flags.around:
            A.abs_()
        F = P.div_(A.add_(self.spec.q))
        if far is not None:
            F[far] = reference.forward(*self._far(far, piece), None, self._spec)
        self._put(piece, F)

    def backward(self, piece: Piece, dy: Tensor) -> None:
        flags = self.spec.flags
        (x, g, P, dP, A, dA, s, z), far = self._take(piece, self.units.x, dy)
        z = torch.abs(x, out=z) if flags.per_term else x
        dP = _horner(self.a, x, P, dP)
        dA = _horner(self.d, z, A, dA)
        if flags.per_term or flags.around:
            torch.sign(x if flags.per_term else A, out=s)
            A.abs_()
        r = A.add_(self.spec.q).reciprocal_()
        F = P.mul_(r)  # times s where there is one, from here on
        first = [(F * r * g).sum(1)] if self.spec.constant and flags.per_term else None  # without
        if flags.around or flags.per_term:
            F.mul_(s)
        slope = torch.addcmul(dP, dA, F, value=-1, out=s)
        if self.units.dtype == torch.float64:  # g r may underflow where the products do not
            slope.mul_(r).mul_(g)
            gb = F.mul_(r).mul_(g)
            ga = g.mul_(r)
        else:  # two passes less, and powers that lift what is lost end at 2^60
            ga = g.mul_(r)
            slope.mul_(ga)
            gb = F.mul_(ga)
        da = [ga.sum(1), *(ga.mul_(x).sum(1) for _ in self.a[1:])]
        db = first or [gb.sum(1)] * self.spec.constant
        db += [gb.mul_(z if k else x).sum(1) for k in range(len(self.d) - 1)]
        if flags.per_term:
            db = [
                torch.where(b == 0, 0, b.sign() * v)
                for b, v in zip(self.units.b.T, db, strict=True)
            ]
        self.sums += torch.stack([*da, *(-v for v in db)]).cpu()
        if far is not None:
            slope[far] = self._far_backward(far, piece, dy)
        self._put(piece, slope)

    def _far_backward(self, far: Tensor, piece: Piece, dy: Tensor) -> Tensor:
        x, a, b = self._far(far, piece)
        g = self._cut(dy, piece)[far].to(self.units.dtype)
        dx, *gradients = reference.backward(g, x, a, b, None, self._spec)
        group = far.nonzero()[:, 0].cpu()
        self.sums.index_add_(1, group, torch.cat(gradients, 1).T.cpu().double())
        return dx

    @property
    def _spec(self) -> Spec:
        return self.spec._replace(channel_dim=0)

    def _far(self, far: Tensor, piece: Piece) -> tuple[Tensor, Tensor, Tensor]:
        """The far elements, and for each the coefficients of its unit."""
        x = self._cut(self.units.x, piece)[far].to(self.units.dtype)
        group = far.nonzero()[:, 0]
        return x, self.units.a[group], self.units.b[group]

    def _cut(self, t: Tensor, piece: Piece) -> Tensor:
        t = t[piece].movedim(1, 0)
        return t.reshape(len(t), -1)

    def _take(self, piece: Piece, *tensors: Tensor) -> tuple[list[Tensor], Tensor | None]:
        """Buffers, the first of them ``tensors`` with far elements zero, and where those are."""
        found = [self._cut(t, piece) for t in tensors]
        size = found[0].numel()
        if self.room.numel() < self.buffers * size:
            self.room = self.room.new_empty(self.buffers * size)
        room = self.room[: self.buffers * size].view(self.buffers, *found[0].shape)
        buffers = list(room.unbind())
        for buffer, t in zip(buffers, found, strict=False):
            buffer.copy_(t)
        x, far = buffers[0], None
        low, high = torch.aminmax(x)
        if not (low >= -self.limit and high <= self.limit):
            far = x.abs() > self.limit  # not where x is NaN
            for buffer in buffers[: len(found)]:
                buffer.masked_fill_(far, 0)
        return buffers, far if far is not None and far.any() else None

    def _put(self, piece: Piece, v: Tensor) -> None:
        out = self.out[piece].movedim(1, 0)
        out.copy_(v.view(out.shape))


def _horner(c: list[Tensor], z: Tensor, out: Tensor, slope: Tensor | None = None) -> Tensor:
    """The polynomial in ``out``; its derivative is returned, in ``slope`` where it is needed."""
    if len(c) == 1:
        torch.mul(z, 0, out=out).add_(c[0])  # NaN stays
        return torch.zeros_like(c[0])
    torch.mul(z, c[-1], out=out).add_(c[-2])
    derivative = c[-1]
    for v in reversed(c[:-2]):
        if slope is not None:
            derivative = torch.addcmul(out, derivative, z, out=slope)
        torch.addcmul(v, out, z, out=out)
    return derivative
