"""The sums of all programs added up, and written where gradients belong."""

import triton
import triton.language as tl

from padenet.torch.kernels.gpu.formula import HAS_B0, PER_TERM
from padenet.torch.kernels.gpu.tiles import LANES
from padenet.torch.kernels.gpu.words import narrow


@triton.jit(do_not_specialize=["count", "chunks"])
def total(
    sums_ptr, b_ptr, da_ptr, db_ptr, count, chunks, units, span,
    FORM: tl.constexpr, M: tl.constexpr, N: tl.constexpr, LAYOUT: tl.constexpr,
    ROWS: tl.constexpr, UNITS: tl.constexpr, COLS: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """Add up one sum of UNITS units over the programs: ``count`` numbers for each, or in LANES
    ``chunks`` rows of ``span`` numbers for each."""
    if EARLY:
        tl.extra.cuda.gdc_wait()
    first, i = tl.program_id(0).to(tl.int64) * UNITS, tl.program_id(1)
    which, j = tl.arange(0, UNITS * COLS) // COLS, tl.arange(0, UNITS * COLS) % COLS
    if LAYOUT == LANES:
        sums_ptr += (i.to(tl.int64) * chunks * units + first) * span
        rows, stride, inner = chunks, tl.cast(units, tl.int64) * span, span
    else:
        sums_ptr += (i.to(tl.int64) * units + first) * count
        rows, stride, inner = tl.cdiv(count, COLS), COLS, count
    acc = tl.zeros((ROWS, UNITS * COLS), tl.float64)
    for start in range(0, rows, ROWS):
        row = start + tl.arange(0, ROWS)[:, None]
        here = (row < rows) & (first + which < units)[None, :]
        here &= j[None, :] + (0 if LAYOUT == LANES else row * COLS) < inner
        acc += tl.load(sums_ptr + row * stride + (which * inner + j)[None, :], here, 0.0)
    sums = tl.sum(tl.reshape(tl.sum(acc, 0), (UNITS, COLS)), 1)
    unit = first + tl.arange(0, UNITS)
    write_sum(da_ptr, db_ptr, b_ptr, unit, unit < units, i, sums, FORM, M, N)


@triton.jit
def write_sum(
    da_ptr, db_ptr, b_ptr, unit, here, i, sum,
    FORM: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    """Sum ``i`` of a unit to its place, with the sign of -b and for "abs_terms" that of b."""
    if i <= M:
        tl.store(da_ptr + unit * (M + 1) + i, _narrow_sum(sum, da_ptr), here)
    else:
        at = unit * (N + FORM // HAS_B0) + i - M - 1
        if PER_TERM & FORM:
            b = tl.load(b_ptr + at, here)
            sum = tl.where(b > 0, sum, tl.where(b < 0, -sum, tl.where(b == 0, 0.0, b)))
        tl.store(db_ptr + at, _narrow_sum(-sum, db_ptr), here)


@triton.jit
def _narrow_sum(sum, ptr):
    if ptr.dtype.element_ty == tl.float64:
        return sum
    else:
        return narrow(sum, ptr)
