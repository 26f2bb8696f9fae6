"""The sums of all programs added up, and written where gradients belong."""

import triton
import triton.language as tl

from padenet.kernels.gpu.formula import ABS_TERMS, OFFSET
from padenet.kernels.gpu.tiles import LANES, narrow


@triton.jit(do_not_specialize=["count", "chunks"])
def total(
    sums_ptr, b_ptr, da_ptr, db_ptr, count, chunks, width, span,
    FORM: tl.constexpr, M: tl.constexpr, N: tl.constexpr, LAYOUT: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """Add up one sum of one unit over the programs: ``count`` numbers, or in LANES ``chunks`` rows
    of ``span`` of ``width`` numbers each."""
    if EARLY:
        tl.extra.cuda.gdc_wait()
    unit, i = tl.program_id(0).to(tl.int64), tl.program_id(1)
    column = tl.arange(0, COLS)[None, :]
    if LAYOUT == LANES:
        sums_ptr += i.to(tl.int64) * chunks * width + unit * span
        rows, stride, inner = chunks, width, span
    else:
        sums_ptr += (i.to(tl.int64) * tl.num_programs(0) + unit) * count
        rows, stride, inner = tl.cdiv(count, COLS), COLS, count
    acc = tl.zeros((ROWS, COLS), tl.float64)
    for start in range(0, rows, ROWS):
        row = start + tl.arange(0, ROWS)[:, None]
        here = (row < rows) & (column + (0 if LAYOUT == LANES else row * COLS) < inner)
        acc += tl.load(sums_ptr + row.to(tl.int64) * stride + column, here, 0.0)
    write_sum(da_ptr, db_ptr, b_ptr, unit, i, tl.sum(acc), FORM, M, N)


@triton.jit
def write_sum(
    da_ptr, db_ptr, b_ptr, unit, i, sum, FORM: tl.constexpr, M: tl.constexpr, N: tl.constexpr
):
    """Sum ``i`` of a unit to its place, with the sign of -b and for "abs_terms" that of b."""
    if i <= M:
        tl.store(da_ptr + unit * (M + 1) + i, _narrow_sum(sum, da_ptr))
    else:
        at = unit * (N + (FORM == OFFSET)) + i - M - 1
        if FORM == ABS_TERMS:
            b = tl.load(b_ptr + at)
            sum = tl.where(b > 0, sum, tl.where(b < 0, -sum, tl.where(b == 0, 0.0, b)))
        tl.store(db_ptr + at, _narrow_sum(-sum, db_ptr))


@triton.jit
def _narrow_sum(sum, ptr):
    if ptr.dtype.element_ty == tl.float64:
        return sum
    else:
        return narrow(sum, ptr)
