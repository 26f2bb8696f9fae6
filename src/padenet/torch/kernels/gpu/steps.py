"""What ``padenet.stabilize`` does around a step, on a GPU: no wait, so a CUDA graph takes it along.

Contract
    Rows      ``remember`` and ``hold`` are a kernel each, a program for each unit or group. Hold
              writes over the coefficients at ``addresses``, contiguous and of old's dtype, and
              over the counts.
    shorten   two kernels. Writes over dense gradients, and over ``square`` and ``counts``.
    both      compute in float64, in a fixed order: the same bits every time.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby

import torch
import triton
import triton.language as tl
from torch import Tensor

from padenet.torch import trust
from padenet.torch.kernels.gpu.formula import AROUND, PER_TERM
from padenet.torch.kernels.gpu.plan import power_of_two
from padenet.torch.kernels.layout import is_dense

PIECE = 8192  # elements of a gradient that a program takes at a time
ABREAST = 1024  # programs at most, each of which leaves a sum
BLOCK = 1024
ROOM = 8  # tables that memory is taken for at once
KEPT = 64  # tables of addresses, before the device is waited for to drop them
KINDS = {
    torch.float32: tl.float32,
    torch.float64: tl.float64,
    torch.bfloat16: tl.bfloat16,
    torch.float16: tl.float16,
}


@triton.jit
def _denominator(b, XB, q, FORM: tl.constexpr):
    if PER_TERM & FORM:
        return 1 + tl.sum(tl.abs(b[:, None] * XB), 0)
    A = tl.sum(b[:, None] * XB, 0)
    if AROUND & FORM:
        return q + tl.abs(A)
    return 1 + A


@triton.jit
def _hold(
    addresses, old_a, old_b, least, grid_a, grid_b, weights, inside, steps, held, since, q, most,
    COUNT_A: tl.constexpr, COUNT_B: tl.constexpr, SIZE_A: tl.constexpr, SIZE_B: tl.constexpr,
    POINTS: tl.constexpr, CUTS: tl.constexpr, LEAST_CUT: tl.constexpr, AT_MOST: tl.constexpr,
    FORM: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    kind: tl.constexpr = tl.pointer_type(old_a.dtype.element_ty)
    to_a = tl.load(addresses + 2 * row).to(kind)
    to_b = tl.load(addresses + 2 * row + 1).to(kind)
    i, j, g = tl.arange(0, SIZE_A), tl.arange(0, SIZE_B), tl.arange(0, POINTS)
    some, few = i < COUNT_A, j < COUNT_B
    a = tl.load(old_a + row * COUNT_A + i, some, 0.0).to(tl.float64)
    b = tl.load(old_b + row * COUNT_B + j, few, 0.0).to(tl.float64)
    da = tl.load(to_a + i, some, 0.0).to(tl.float64) - a
    db = tl.load(to_b + j, few, 0.0).to(tl.float64) - b
    XA = tl.load(grid_a + i[:, None] * POINTS + g[None, :], some[:, None], 0.0)
    XB = tl.load(grid_b + j[:, None] * POINTS + g[None, :], few[:, None], 0.0)
    w = tl.load(weights + g)
    P, Q = tl.sum(a[:, None] * XA, 0), _denominator(b, XB, q, FORM)
    F = P / Q
    rate_a = tl.max((w / tl.abs(Q))[None, :] * tl.abs(XA), 1)
    rate_b = tl.max((w * tl.abs(F / Q))[None, :] * tl.abs(XB), 1)
    da, db = da / tl.maximum(rate_a / AT_MOST, 1.0), db / tl.maximum(rate_b / AT_MOST, 1.0)
    dP = tl.sum(da[:, None] * XA, 0)
    t = most * 0 + 1.0
    over = t > 2
    for _ in tl.static_range(CUTS):
        moved = (P + t * dP) / _denominator(b + t * db, XB, q, FORM) - F
        wrong = tl.max(tl.where(tl.abs(moved) < float("inf"), 0, 1), 0) > 0
        move = tl.max(w * tl.abs(moved), 0)
        over = wrong | (move > most)
        factor = tl.minimum(tl.maximum(0.99 * most / tl.maximum(move, 1e-300), LEAST_CUT), 0.99)
        t = tl.where(over, t * tl.where(wrong, LEAST_CUT, factor), t)
    t = tl.where(over, 0.0, t)
    a = tl.where(t > 0, a + t * da, a)
    b = tl.where(t > 0, b + t * db, b)
    step = most * 0
    if COUNT_B > 0:
        last = j == COUNT_B - 1
        floor = tl.load(least + row)
        sign = tl.where(floor > 0, 1.0, -1.0)
        missing = (floor - tl.sum(tl.where(last, b, 0.0), 0)) * sign
        power = tl.sum(tl.where(last[:, None], tl.abs(XB), 0.0), 0)
        rate = tl.max(w * tl.abs(F / Q) * power * tl.load(inside + g), 0)
        step = tl.minimum(missing, most / tl.maximum(rate, 1e-30)) * sign
        step = tl.where(missing > 0, tl.where(floor != 0, step, 0.0), 0.0)
        b += tl.where(last, step, 0.0)
    cut = tl.where(t < 1, 1, tl.where(step != 0, 1, 0)).to(tl.int64)
    ty: tl.constexpr = old_a.dtype.element_ty
    wide: tl.constexpr = tl.float64 if ty == tl.float64 else tl.float32
    tl.store(to_a + i, a.to(wide).to(ty), some)
    tl.store(to_b + j, b.to(wide).to(ty), few)
    now = tl.load(steps + row) + 1
    tl.store(steps + row, now)
    before = tl.load(since + row)
    tl.store(held + row, tl.load(held + row) + cut)
    tl.store(since + row, tl.where(before == 0, now * cut, before))


@triton.jit
def _remember(
    addresses, old_a, old_b,
    COUNT_A: tl.constexpr, COUNT_B: tl.constexpr, SIZE_A: tl.constexpr, SIZE_B: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    kind: tl.constexpr = tl.pointer_type(old_a.dtype.element_ty)
    from_a = tl.load(addresses + 2 * row).to(kind)
    from_b = tl.load(addresses + 2 * row + 1).to(kind)
    i, j = tl.arange(0, SIZE_A), tl.arange(0, SIZE_B)
    tl.store(old_a + row * COUNT_A + i, tl.load(from_a + i, i < COUNT_A), i < COUNT_A)
    tl.store(old_b + row * COUNT_B + j, tl.load(from_b + j, j < COUNT_B), j < COUNT_B)


class Rows:
    """Units with the same layout, and what holds their steps: ``padenet.torch.trust.hold``."""

    def __init__(self, memory: trust.Memory):
        addresses, old, least, grid, counts, spec, most = memory
        m, n = (t.shape[1] for t in old)
        self.sizes = {
            "COUNT_A": m, "SIZE_A": power_of_two(m),
            "COUNT_B": n, "SIZE_B": power_of_two(max(n, 1)),
        }  # fmt: skip
        self.constants = {
            "POINTS": grid.weight.numel(), "CUTS": trust.CUTS, "LEAST_CUT": trust.LEAST_CUT,
            "AT_MOST": trust.AT_MOST,
            "FORM": spec.flags.code, "num_warps": 4,
        }  # fmt: skip
        self.where = addresses, *old
        self.rest = least, *grid, *counts, spec.q, most

    def remember(self) -> None:
        """Copy the coefficients to ``old``."""
        with torch.cuda.device_of(self.where[0]):
            _remember[(len(self.where[0]),)](*self.where, **self.sizes, num_warps=1)

    def hold(self) -> None:
        with torch.cuda.device_of(self.where[0]):
            _hold[(len(self.where[0]),)](*self.where, *self.rest, **self.sizes, **self.constants)


@triton.jit
def _sum_squares(
    table, pieces, sums, square, counts, before, KIND: tl.constexpr, FIRST: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """The squares of the pieces of each program; the state as it was before this step."""
    program = tl.program_id(0)
    if FIRST:
        if program == 0:
            tl.store(before, tl.load(square))
            tl.store(before + 1, tl.load(counts).to(tl.float64))  # seen, exact up to 2^53
    i = tl.arange(0, BLOCK)
    found = tl.zeros([BLOCK], tl.float64)
    for piece in range(program, pieces, tl.num_programs(0)):
        start = tl.load(table + 2 * piece).to(tl.pointer_type(KIND))
        count = tl.load(table + 2 * piece + 1)
        for done in range(0, count, BLOCK):
            x = tl.load(start + done + i, done + i < count, 0.0).to(tl.float64)
            found += x * x
    tl.store(sums + program, tl.sum(found, 0))


@triton.jit
def _shorten(
    table, pieces, sums, programs, square, counts, before, scale,
    KIND: tl.constexpr, FIRST: tl.constexpr, SPIKE: tl.constexpr, DECAY: tl.constexpr,
    SIZE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    k = tl.arange(0, SIZE)
    total = tl.sum(tl.load(sums + k, k < programs, 0.0), 0)
    size = tl.sqrt(total) / tl.load(scale).to(tl.float64)
    was, seen = tl.load(before), tl.load(before + 1)
    most = SPIKE * tl.sqrt(was)
    finite = (size * size).to(tl.float32) < float("inf")  # as where there is no kernel
    over = finite & (size > most) & (seen > 0)
    if FIRST:
        if tl.program_id(0) == 0:
            if finite & (size > 0):
                decay = tl.minimum(1 - 1 / (seen + 1), DECAY)
                kept = tl.where(over, most, size)
                tl.store(square, decay * was + (1 - decay) * kept * kept)
                tl.store(counts, (seen + 1).to(tl.int64))
            now = tl.load(counts + 1) + 1
            tl.store(counts + 1, now)
            if over:
                tl.store(counts + 2, tl.load(counts + 2) + 1)
                since = tl.load(counts + 3)
                tl.store(counts + 3, tl.where(since == 0, now, since))
    if over:
        wide: tl.constexpr = tl.float64 if tl.float64 == KIND else tl.float32
        factor = (most / size).to(wide)
        i = tl.arange(0, BLOCK)
        for piece in range(tl.program_id(0), pieces, tl.num_programs(0)):
            start = tl.load(table + 2 * piece).to(tl.pointer_type(KIND))
            count = tl.load(table + 2 * piece + 1)
            for done in range(0, count, BLOCK):
                inside = done + i < count
                x = tl.load(start + done + i, inside, 0.0)
                tl.store(start + done + i, (x * factor).to(KIND), inside)


class Shortener:
    """``padenet.torch.optim.spikes.Spikes.shorten`` on one device, and the tables it has made.

    A table says where the pieces of the gradients lie. It is in memory of the host that the device
    reads, so that none is copied: a CUDA graph would repeat the copy, whatever lies there then. A
    table that a graph reads is kept as long as this is.
    """

    def __init__(self, device: torch.device):
        self.device = device
        zeros = torch.zeros
        self.sums = zeros(ABREAST * len(KINDS), dtype=torch.float64, device=device)
        self.before = zeros(2, dtype=torch.float64, device=device)
        self.one = torch.ones((), device=device)
        self.tables: dict[tuple[tuple[int, int], ...], Tensor] = {}
        self.captured: list[Tensor] = []
        self.room = torch.empty((0, 2), dtype=torch.int64)

    def takes(self, grads: Sequence[Tensor]) -> bool:
        """Whether they are dense and on this device."""
        return all(
            type(g) is Tensor and g.device == self.device and g.dtype in KINDS and is_dense(g)
            for g in grads
        )

    def __call__(
        self,
        grads: Sequence[Tensor],
        square: Tensor,
        counts: Tensor,
        scale: Tensor | None,
        spike: float,
        decay: float,
    ) -> None:
        kinds = sorted((g for g in grads if g.numel()), key=lambda g: str(g.dtype))
        launches, slots = [], 0
        for dtype, some in groupby(kinds, lambda g: g.dtype):
            table = self._table(tuple((g.data_ptr(), g.numel()) for g in some), dtype.itemsize)
            programs = min(ABREAST, len(table))
            launches.append((table, KINDS[dtype], programs, slots))
            slots += programs
        scale = self.one if scale is None else scale
        with torch.cuda.device_of(square):
            for i, (table, kind, programs, slot) in enumerate(launches):
                _sum_squares[(programs,)](
                    table, len(table), self.sums[slot:], square, counts, self.before,
                    KIND=kind, FIRST=i == 0, BLOCK=BLOCK,
                )  # fmt: skip
            for i, (table, kind, programs, _) in enumerate(launches):
                _shorten[(programs,)](
                    table, len(table), self.sums, slots, square, counts, self.before, scale,
                    KIND=kind, FIRST=i == 0, SPIKE=spike, DECAY=decay,
                    SIZE=power_of_two(slots), BLOCK=BLOCK,
                )  # fmt: skip

    def _table(self, places: tuple[tuple[int, int], ...], itemsize: int) -> Tensor:
        """(pieces, 2): address and count of each."""
        on_gpu = self.device.type == "cuda"
        capturing = on_gpu and torch.cuda.is_current_stream_capturing()
        table = self.tables.get(places)
        if table is None:
            rows = torch.tensor(list(_pieces(places, itemsize)), dtype=torch.int64)
            if not capturing and len(self.tables) >= KEPT:
                if on_gpu:
                    torch.cuda.synchronize(self.device)  # none is read any more, but by graphs
                self.tables.clear()
            if len(self.room) < len(rows):
                self.room = torch.empty((ROOM * len(rows), 2), dtype=rows.dtype, pin_memory=on_gpu)
            table, self.room = self.room.split([len(rows), len(self.room) - len(rows)])
            table.copy_(rows)
            self.tables[places] = table
        if capturing:
            self.captured.append(table)
        return table


def _pieces(places: tuple[tuple[int, int], ...], itemsize: int) -> Iterator[tuple[int, int]]:
    for address, count in places:
        for done in range(0, count, PIECE):
            yield address + done * itemsize, min(PIECE, count - done)
