"""``padenet.trust.hold`` as one kernel: a program for each unit or group, no wait.

Contract
    addresses   int64 (rows, 2): where a and b of the row are, contiguous, of old_a's dtype.
    old_a, b    contiguous (rows, terms): the coefficients before the step.
    result      written over the coefficients; computed in float64.
    counts      steps, held and since of each row, on the device, so that a CUDA graph counts too.
"""

from typing import Any

import torch
import triton
import triton.language as tl

from padenet import trust
from padenet.kernels.gpu.plan import power_of_two


@triton.jit
def _denominator(b, XB, q, ABS_TERMS: tl.constexpr, FREE: tl.constexpr):
    if ABS_TERMS:
        return 1 + tl.sum(tl.abs(b[:, None] * XB), 0)
    A = tl.sum(b[:, None] * XB, 0)
    if FREE:
        return 1 + A
    return q + tl.abs(A)


@triton.jit
def hold(
    addresses, old_a, old_b, least, grid_a, grid_b, weights, inside, steps, held, since, q, most,
    COUNT_A: tl.constexpr, COUNT_B: tl.constexpr, SIZE_A: tl.constexpr, SIZE_B: tl.constexpr,
    POINTS: tl.constexpr, CUTS: tl.constexpr, LEAST_CUT: tl.constexpr, AT_MOST: tl.constexpr,
    ABS_TERMS: tl.constexpr, FREE: tl.constexpr,
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
    P, Q = tl.sum(a[:, None] * XA, 0), _denominator(b, XB, q, ABS_TERMS, FREE)
    F = P / Q
    rate_a = tl.max((w / tl.abs(Q))[None, :] * tl.abs(XA), 1)
    rate_b = tl.max((w * tl.abs(F / Q))[None, :] * tl.abs(XB), 1)
    da, db = da / tl.maximum(rate_a / AT_MOST, 1.0), db / tl.maximum(rate_b / AT_MOST, 1.0)
    dP = tl.sum(da[:, None] * XA, 0)
    t = most * 0 + 1.0
    over = t > 2
    for _ in tl.static_range(CUTS):
        moved = (P + t * dP) / _denominator(b + t * db, XB, q, ABS_TERMS, FREE) - F
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


class Launch:
    """The kernel on a bank of units. The table of addresses is made anew when they move."""

    def __init__(self, bank: Any):
        self.bank, self.places, self.addresses = bank, (), torch.empty(0)
        m, n = (t.shape[1] for t in bank.old)
        self.constants = {
            "COUNT_A": m, "SIZE_A": power_of_two(m),
            "COUNT_B": n, "SIZE_B": power_of_two(max(n, 1)),
            "POINTS": bank.grid.weight.numel(), "CUTS": trust.CUTS, "LEAST_CUT": trust.LEAST_CUT,
            "AT_MOST": trust.AT_MOST,
            "ABS_TERMS": bank.spec.form == "abs_terms", "FREE": bank.spec.form == "free",
        }  # fmt: skip
        self.locate()

    def locate(self) -> None:
        bank = self.bank
        places = tuple(p.data_ptr() for p in bank.parameters())
        if places == self.places:
            return
        rows = []
        steps = [t.shape[1] * t.element_size() for t in bank.old]
        for a, b, size in zip(places[::2], places[1::2], bank.sizes, strict=True):
            rows += [[a + i * steps[0], b + i * steps[1]] for i in range(size)]
        self.addresses = torch.tensor(rows, dtype=torch.int64).to(bank.old[0].device)
        self.places = places

    def __call__(self) -> None:
        bank = self.bank
        self.locate()
        with torch.cuda.device_of(bank.old[0]):
            hold[(len(bank.least),)](
                self.addresses, *bank.old, bank.least, *bank.grid, bank.steps, bank.held,
                bank.since, bank.spec.q, bank.most, **self.constants, num_warps=4,
            )  # fmt: skip
