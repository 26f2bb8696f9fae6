"""The Triton kernels. Formula: ``padenet/reference.py``; how they are launched: ``gpu.py``.

A tensor is a matrix of ``width`` columns in memory order. It is cut into tiles of ROWS x COLS, and
a program takes ``steps`` of them, in one of three layouts:

    FLAT    one unit: a row is COLS words of the tensor, whatever its shape.
    RUNS    ``span`` neighbouring columns share a unit: a program stays with one unit.
    LANES   short spans: every column of a tile has a unit of its own.

Rows and columns count words: one element, or PARTS = 2 of 16 bits. A thread holds four words of a
tile and computes them one element after the other, while the next four are on their way.

This is done in float32 as long as no |x| lies above a limit that the coefficients set. If some did,
the program sweeps its tiles again, in float64 and with the powers that would overflow divided out
(``_far``). The same sweep takes the last elements of a FLAT tensor, fewer than 16, which no aligned
load covers.

Sums: at most 256 elements one after the other in a thread, then those, then a tree over the
threads, and in float64 over the programs (``total``). No order depends on timing: the same bits
every time.

``a`` holds a_0 .. a_m, ``d`` holds d_0 .. d_n: d_0 is 0 but for "offset", and d_k is |b_k| for
"abs_terms". Both are tuples of numbers, of rows (LANES) or of tiles (noise).
"""

import os

import triton
import triton.language as tl

ABS_TERMS, FREE, OFFSET = (tl.constexpr(i) for i in (1, 2, 3))  # places in padenet.spec.FORMS
FLAT, RUNS, LANES = (tl.constexpr(i) for i in range(3))
FLUSH = tl.constexpr(32)  # steps after which the sums of a thread are put aside
INTERPRETED = tl.constexpr(os.environ.get("TRITON_INTERPRET") == "1")


@triton.jit(do_not_specialize=["seed", "rows", "steps", "numel", "middle", "minor"])
def forward(
    x_ptr, y_ptr, a_ptr, b_ptr, seed_ptr, seed: "i64", q, alpha,
    rows, steps, numel, width, span, middle, minor,
    FORM: tl.constexpr, M: tl.constexpr, N: tl.constexpr, NOISE: tl.constexpr,
    LAYOUT: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, PARTS: tl.constexpr,
    UNIT: tl.constexpr, FAR_ROWS: tl.constexpr, FAR_COLS: tl.constexpr, BIG: tl.constexpr,
    NVIDIA: tl.constexpr,
):  # fmt: skip
    DEEP: tl.constexpr = ROWS // 4 if LAYOUT == LANES else ROWS
    WIDE: tl.constexpr = COLS if LAYOUT == LANES else COLS // 4
    SETS: tl.constexpr = PARTS if LAYOUT == LANES else 1
    base, tiles, unit, slot, place = _place(
        rows, steps, numel, width * UNIT, span * UNIT, LAYOUT, ROWS, COLS, PARTS, BIG
    )
    end, rest = place[0], place[1]
    x_ptr += base
    y_ptr += base
    row, column = _position(0, place, ROWS, COLS, LAYOUT)
    four = _fetch(x_ptr, row, column, place, LAYOUT, ROWS, COLS, PARTS, PARTS, False)
    a, d = _coefficients(
        a_ptr, b_ptr, unit, width * UNIT, span * UNIT, FORM, M, N, LAYOUT, COLS, PARTS
    )
    limit = _limits(a, d, M, N, SETS, NOISE)
    top_a, top_d = _in_threads(
        a_ptr, b_ptr, unit, a, d, numel, FORM, M, N, LAYOUT, NOISE, DEEP, WIDE
    )
    if seed_ptr is not None:
        seed = tl.load(seed_ptr)

    largest = _zeros(SETS, DEEP, WIDE, tl.float32)
    for tile in range(0, tiles):
        held, at, begin = four, row, column
        row, column = _next(row, column, tile + 1 < tiles, place, LAYOUT, ROWS, COLS)
        four = _fetch(x_ptr, row, column, place, LAYOUT, ROWS, COLS, PARTS, PARTS, False)
        out = ()
        for i in tl.static_range(4 * PARTS):
            x = _part(held[i // PARTS], i % PARTS, PARTS, x_ptr)
            largest = _larger(largest, tl.abs(x), i % SETS, SETS)
            u, v = _noisy(
                _set(top_a, i % SETS, M + 1), _set(top_d, i % SETS, N + 1),
                base + _index(at, begin, i, place, LAYOUT, ROWS, COLS, PARTS),
                seed, alpha, middle, minor, FORM, M, N, NOISE,
            )  # fmt: skip
            P, dP, A, dA = _polynomials(x, u, v, FORM, M, N)
            out = out + (P * _reciprocal(_denominator(A, q, FORM), NVIDIA),)
        _put(y_ptr, at, begin, place, out, LAYOUT, ROWS, COLS, PARTS, NVIDIA)

    some_far = _exceeds(largest, limit, SETS)
    if some_far or end < rest:
        tl.debug_barrier()  # elements written above are written again, by other threads
        far_limit = _joined_sets(limit, 1, SETS, COLS)[0]
        far_a = _joined_sets(a, M + 1, SETS, COLS)
        far_d = _joined_sets(d, N + 1, SETS, COLS)
        for tile in range(tl.where(some_far, 0, end // (COLS * PARTS)), tiles):
            for piece in range(0, ROWS * COLS * PARTS, FAR_ROWS * FAR_COLS):
                offset, mine = _piece(
                    tile, piece, place, LAYOUT, ROWS, COLS, PARTS, FAR_ROWS, FAR_COLS
                )
                x = tl.load(x_ptr + offset, mine, 0.0)
                mine &= (tl.abs(x.to(tl.float32)) > far_limit) | (offset >= end)
                u, v = _noisy(
                    far_a, far_d, base + offset, seed, alpha, middle, minor, FORM, M, N, NOISE
                )
                wide = x.to(tl.float64)
                y, dx, da, db = _far(wide, wide, u, v, q, FORM, M, N)
                tl.store(y_ptr + offset, _narrow(y, y_ptr), mine)


@triton.jit(do_not_specialize=["seed", "rows", "steps", "numel", "middle", "minor"])
def backward(
    dy_ptr, x_ptr, dx_ptr, a_ptr, b_ptr, sums_ptr, da_ptr, db_ptr, seed_ptr, seed: "i64", q, alpha,
    rows, steps, numel, width, span, middle, minor,
    FORM: tl.constexpr, M: tl.constexpr, N: tl.constexpr, NOISE: tl.constexpr,
    LAYOUT: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, PARTS: tl.constexpr,
    UNIT: tl.constexpr, FAR_ROWS: tl.constexpr, FAR_COLS: tl.constexpr, BIG: tl.constexpr,
    NVIDIA: tl.constexpr, ONE_DY: tl.constexpr, ALONE: tl.constexpr,
):  # fmt: skip
    """dx, and the sums of this program: for ``total``, or ALONE in its unit, da and db."""
    K: tl.constexpr = M + 1 + N + (FORM == OFFSET)
    DEEP: tl.constexpr = ROWS // 4 if LAYOUT == LANES else ROWS
    WIDE: tl.constexpr = COLS if LAYOUT == LANES else COLS // 4
    SETS: tl.constexpr = PARTS if LAYOUT == LANES else 1
    DY_PARTS: tl.constexpr = 1 if ONE_DY else PARTS
    base, tiles, unit, slot, place = _place(
        rows, steps, numel, width * UNIT, span * UNIT, LAYOUT, ROWS, COLS, PARTS, BIG
    )
    end, rest = place[0], place[1]
    x_ptr += base
    dx_ptr += base
    dy_ptr += 0 if ONE_DY else base
    row, column = _position(0, place, ROWS, COLS, LAYOUT)
    four = _fetch(x_ptr, row, column, place, LAYOUT, ROWS, COLS, PARTS, PARTS, False)
    dfour = _fetch(dy_ptr, row, column, place, LAYOUT, ROWS, COLS, PARTS, DY_PARTS, ONE_DY)
    a, d = _coefficients(
        a_ptr, b_ptr, unit, width * UNIT, span * UNIT, FORM, M, N, LAYOUT, COLS, PARTS
    )
    limit = _limits(a, d, M, N, SETS, NOISE)
    top_a, top_d = _in_threads(
        a_ptr, b_ptr, unit, a, d, numel, FORM, M, N, LAYOUT, NOISE, DEEP, WIDE
    )
    if seed_ptr is not None:
        seed = tl.load(seed_ptr)

    largest = _zeros(SETS, DEEP, WIDE, tl.float32)
    aside = _zeros(SETS * K, DEEP, WIDE, tl.float32)
    for first in range(0, tiles, FLUSH):
        sums = _zeros(SETS * K, DEEP, WIDE, tl.float32)
        for tile in range(first, tl.minimum(first + FLUSH, tiles)):
            held, dheld, at, begin = four, dfour, row, column
            row, column = _next(row, column, tile + 1 < tiles, place, LAYOUT, ROWS, COLS)
            four = _fetch(x_ptr, row, column, place, LAYOUT, ROWS, COLS, PARTS, PARTS, False)
            dfour = _fetch(
                dy_ptr, row, column, place, LAYOUT, ROWS, COLS, PARTS, DY_PARTS, ONE_DY
            )
            out = ()
            for i in tl.static_range(4 * PARTS):
                x = _part(held[i // PARTS], i % PARTS, PARTS, x_ptr)
                dy = _part(dheld[i // PARTS], i % PARTS, DY_PARTS, dy_ptr)
                largest = _larger(largest, tl.abs(x), i % SETS, SETS)
                u, v = _noisy(
                    _set(top_a, i % SETS, M + 1), _set(top_d, i % SETS, N + 1),
                    base + _index(at, begin, i, place, LAYOUT, ROWS, COLS, PARTS),
                    seed, alpha, middle, minor, FORM, M, N, NOISE,
                )  # fmt: skip
                P, dP, A, dA = _polynomials(x, u, v, FORM, M, N)
                r = _reciprocal(_denominator(A, q, FORM), NVIDIA)
                F = P * r
                if FORM == FREE:
                    sF = F
                else:
                    sF = _times_sign(F, x if FORM == ABS_TERMS else A)
                ga = dy * r
                gb = (F if FORM == ABS_TERMS else sF) * ga
                out = out + (ga * (dP - dA * sF),)
                sums = _added(sums, ga, gb, x, i % SETS, SETS, FORM, M, N)
            _put(dx_ptr, at, begin, place, out, LAYOUT, ROWS, COLS, PARTS, NVIDIA)
        aside = _plus(aside, sums, SETS * K)

    total = _reduced(aside, LAYOUT, K, SETS)
    some_far = _exceeds(largest, limit, SETS)
    if some_far or end < rest:
        tl.debug_barrier()  # elements written above are written again, by other threads
        far_limit = _joined_sets(limit, 1, SETS, COLS)[0]
        far_a = _joined_sets(a, M + 1, SETS, COLS)
        far_d = _joined_sets(d, N + 1, SETS, COLS)
        far_sums = _zeros(K, FAR_ROWS, FAR_COLS, tl.float64)
        for tile in range(tl.where(some_far, 0, end // (COLS * PARTS)), tiles):
            for piece in range(0, ROWS * COLS * PARTS, FAR_ROWS * FAR_COLS):
                offset, mine = _piece(
                    tile, piece, place, LAYOUT, ROWS, COLS, PARTS, FAR_ROWS, FAR_COLS
                )
                mine &= offset >= tl.where(some_far, 0, end)
                x = tl.load(x_ptr + offset, mine, 0.0)
                dy = tl.load(dy_ptr + (0 if ONE_DY else offset), mine, 0.0)
                u, v = _noisy(
                    far_a, far_d, base + offset, seed, alpha, middle, minor, FORM, M, N, NOISE
                )
                y, dx, da, db = _far(dy.to(tl.float64), x.to(tl.float64), u, v, q, FORM, M, N)
                far_sums = _plus(far_sums, da + _without_constant(db, FORM, N), K)
                mine &= (tl.abs(x.to(tl.float32)) > far_limit) | (offset >= end)
                tl.store(dx_ptr + offset, _narrow(dx, dx_ptr), mine)
        again = _reduced(far_sums, LAYOUT, K, 1)
        total = _plus(_zero_if(some_far, total, K), again, K)

    if ALONE:
        for i in tl.static_range(K):
            _write(da_ptr, db_ptr, b_ptr, unit, i, total[i], FORM, M, N)
    elif LAYOUT == LANES:
        columns: tl.constexpr = COLS * PARTS
        column = unit * PARTS + tl.arange(0, columns)
        for i in tl.static_range(K):
            row = sums_ptr + (i * tl.cdiv(rows, ROWS * steps) + slot) * (width * UNIT * PARTS)
            tl.store(row + column, total[i], column < width * UNIT * PARTS)
    else:
        for i in tl.static_range(K):
            tl.store(sums_ptr + i * tl.num_programs(0) + slot, total[i])


@triton.jit(do_not_specialize=["count", "chunks"])
def total(
    sums_ptr, b_ptr, da_ptr, db_ptr, count, chunks, width, span,
    FORM: tl.constexpr, M: tl.constexpr, N: tl.constexpr, LAYOUT: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """Add up one sum of one unit over the programs: ``count`` numbers, or in LANES ``chunks`` rows of
    ``span`` of ``width`` numbers each."""
    unit, i = tl.program_id(0), tl.program_id(1)
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
    _write(da_ptr, db_ptr, b_ptr, unit, i, tl.sum(acc), FORM, M, N)


@triton.jit
def _write(
    da_ptr, db_ptr, b_ptr, unit, i, sum, FORM: tl.constexpr, M: tl.constexpr, N: tl.constexpr
):
    """Sum ``i`` of a unit to its place, with the sign of -b and for "abs_terms" that of b."""
    if i <= M:
        tl.store(da_ptr + unit * (M + 1) + i, sum.to(da_ptr.dtype.element_ty))
    else:
        at = unit * (N + (FORM == OFFSET)) + i - M - 1
        if FORM == ABS_TERMS:
            b = tl.load(b_ptr + at)
            sum = tl.where(b > 0, sum, tl.where(b < 0, -sum, tl.where(b == 0, 0.0, b)))
        tl.store(db_ptr + at, (-sum).to(db_ptr.dtype.element_ty))


@triton.jit
def _place(
    rows, steps, numel, width, span, LAYOUT: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
    PARTS: tl.constexpr, BIG: tl.constexpr,
):  # fmt: skip
    """Where this program begins, how many tiles it has, its unit (or first column), the place of its
    sums, and what its tiles need to know, all seen from that beginning:

        end, rest   elements that aligned loads reach, and elements there are (FLAT)
        width       words from a row to the next
        below       rows
        columns     words that belong to the unit
        across      tiles side by side in a unit, and how many of these come before the first
    """
    pid = tl.program_id(0)
    if LAYOUT == FLAT:
        unit, slot, across, start, columns = 0, pid, 1, 0, COLS
    elif LAYOUT == LANES:
        blocks = tl.cdiv(width, COLS)
        unit, slot, across = pid % blocks * COLS, pid // blocks, 1
        start, columns = unit, tl.minimum(COLS, width - unit)
    else:
        units = width // span
        unit, across = pid % units, tl.cdiv(span, COLS)
        start, columns, slot = unit * span, span, pid // units
    first = slot.to(tl.int64) * steps
    row = first // across * ROWS
    base = (row * width + start) * PARTS
    below, before = rows - row, first % across
    tiles = tl.minimum(steps, tl.cdiv(rows, ROWS) * across - first).to(tl.int32)
    if LAYOUT == RUNS:
        slot += unit * (tl.num_programs(0) // (width // span))
    end, rest = below * width * PARTS, below * width * PARTS
    if LAYOUT == FLAT:
        below = tl.minimum(below, steps)
        own = steps * (ROWS * COLS * PARTS)
        end = tl.maximum(tl.minimum(own, numel // 16 * 16 - base), 0)
        rest = tl.minimum(own, numel - base)
    elif not BIG:
        end, rest = tl.minimum(end, 2147483647), tl.minimum(rest, 2147483647)
    if not BIG:
        below = tl.minimum(below, 2147483647).to(tl.int32)
        end, rest, before = end.to(tl.int32), rest.to(tl.int32), before.to(tl.int32)
    return base, tiles, unit, slot, (end, rest, width, below, columns, across, before)


@triton.jit
def _position(tile, place, ROWS: tl.constexpr, COLS: tl.constexpr, LAYOUT: tl.constexpr):
    """Row and column of a tile."""
    if LAYOUT == RUNS:
        n = tile + place[6]
        return n // place[5] * ROWS, n % place[5] * COLS
    else:
        return tile * ROWS, 0


@triton.jit
def _next(
    row, column, more, place, LAYOUT: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr
):
    """The tile after that at row and column; outside the tensor after the last."""
    if LAYOUT == RUNS:
        inside = column + COLS < place[4]
        row, column = tl.where(inside, row, row + ROWS), tl.where(inside, column + COLS, 0)
    else:
        row += ROWS
    return tl.where(more, row, place[3]), column


@triton.jit
def _words(
    row, column, place, LAYOUT: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
    PARTS: tl.constexpr,
):  # fmt: skip
    """Offsets of ROWS x COLS words, and which of them are inside."""
    width, below, columns = place[2], place[3], place[4]
    i, j = tl.arange(0, ROWS)[:, None], tl.arange(0, COLS)[None, :]
    word = row * width + column + (i * width + j)
    if LAYOUT == FLAT:
        here = word < place[0] // PARTS
    else:
        here = (row + i < below) & (column + j < columns)
    return word, here


@triton.jit
def _fetch(
    ptr, row, column, place, LAYOUT: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
    PARTS: tl.constexpr, DY_PARTS: tl.constexpr, ONE: tl.constexpr,
):  # fmt: skip
    """Four words for each thread: side by side, or in LANES below each other."""
    if LAYOUT == LANES:
        four = ()
        for i in tl.static_range(4):
            word, here = _words(
                row + i * (ROWS // 4), column, place, LAYOUT, ROWS // 4, COLS, PARTS
            )
            four = four + (_load(ptr, word, here, DY_PARTS, ONE),)
        return four
    else:
        word, here = _words(row, column, place, LAYOUT, ROWS, COLS, PARTS)
        return _split(_load(ptr, word, here, DY_PARTS, ONE), ROWS, COLS // 4)


@triton.jit
def _put(
    ptr, row, column, place, values, LAYOUT: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
    PARTS: tl.constexpr, NVIDIA: tl.constexpr,
):  # fmt: skip
    words = ()
    for i in tl.static_range(4):
        if PARTS == 1:
            words = words + (_narrow(values[i], ptr),)
        else:
            words = words + (_packed(values[2 * i], values[2 * i + 1], ptr, NVIDIA),)
    pointer = ptr if PARTS == 1 else ptr.to(tl.pointer_type(tl.int32))
    if LAYOUT == LANES:
        for i in tl.static_range(4):
            word, here = _words(
                row + i * (ROWS // 4), column, place, LAYOUT, ROWS // 4, COLS, PARTS
            )
            tl.store(pointer + word, words[i], here)
    else:
        word, here = _words(row, column, place, LAYOUT, ROWS, COLS, PARTS)
        tl.store(pointer + word, _joined(words, ROWS, COLS // 4), here)


@triton.jit
def _index(
    row, column, i: tl.constexpr, place, LAYOUT: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
    PARTS: tl.constexpr,
):  # fmt: skip
    """Offsets of element ``i`` of those that the threads got from ``_fetch``."""
    width = place[2]
    WORD: tl.constexpr = i // PARTS
    if LAYOUT == LANES:
        j, k = tl.arange(0, ROWS // 4)[:, None], tl.arange(0, COLS)[None, :]
        word = (row + WORD * (ROWS // 4)) * width + (j * width + k)
    else:
        j, k = tl.arange(0, ROWS)[:, None], tl.arange(0, COLS // 4)[None, :]
        word = row * width + column + (j * width + 4 * k + WORD)
    return word * PARTS + i % PARTS


@triton.jit
def _piece(
    tile, piece, place, LAYOUT: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
    PARTS: tl.constexpr, FAR_ROWS: tl.constexpr, FAR_COLS: tl.constexpr,
):  # fmt: skip
    """Offsets of the elements of a piece of a tile, and which of them are inside."""
    row, column = _position(tile, place, ROWS, COLS, LAYOUT)
    ACROSS: tl.constexpr = COLS * PARTS // FAR_COLS
    n = piece // (FAR_ROWS * FAR_COLS)
    i = row + n // ACROSS * FAR_ROWS + tl.arange(0, FAR_ROWS)[:, None]
    j = column * PARTS + n % ACROSS * FAR_COLS + tl.arange(0, FAR_COLS)[None, :]
    offset = i * (place[2] * PARTS) + j
    if LAYOUT == FLAT:
        here = offset < place[1]
    else:
        here = (i < place[3]) & (j < place[4] * PARTS)
    return offset, here


@triton.jit
def _coefficients(
    a_ptr, b_ptr, unit, width, span, FORM: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
    LAYOUT: tl.constexpr, COLS: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """a and d of the unit; in LANES rows of those of every column, one set for each part of a word."""
    CONSTANT: tl.constexpr = FORM == OFFSET
    a, d = (), ()
    for part in tl.static_range(PARTS if LAYOUT == LANES else 1):
        if LAYOUT == LANES:
            column = tl.minimum(unit + tl.arange(0, COLS), width - 1)[None, :]
            which = (column * PARTS + part) // span
        else:
            which = unit
        for j in tl.static_range(M + 1):
            a = a + (tl.load(a_ptr + which * (M + 1) + j).to(tl.float32),)
        if not CONSTANT:
            d = d + (0.0,)
        for k in tl.static_range(N + CONSTANT):
            b = tl.load(b_ptr + which * (N + CONSTANT) + k).to(tl.float32)
            d = d + (tl.abs(b) if FORM == ABS_TERMS else b,)
    return a, d


@triton.jit
def _in_threads(
    a_ptr, b_ptr, unit, a, d, numel, FORM: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
    LAYOUT: tl.constexpr, NOISE: tl.constexpr, DEEP: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """a and d with their leading coefficients loaded by each thread for itself.

    The compiler keeps what all threads share in registers of its own, of which a multiply-add takes
    one. The first of Horner's steps has two, and would copy one over for every element.
    """
    if LAYOUT == LANES or NOISE > 0 or M == 0 or N == 0:
        return a, d
    else:
        CONSTANT: tl.constexpr = FORM == OFFSET
        lane = tl.arange(0, DEEP)[:, None] + tl.arange(0, WIDE)[None, :]
        zero = tl.where(numel < 0, lane, 0)  # which the compiler cannot know
        top_a = tl.load(a_ptr + (unit * (M + 1) + M + zero)).to(tl.float32)
        top_d = tl.load(b_ptr + (unit * (N + CONSTANT) + N + CONSTANT - 1 + zero)).to(tl.float32)
        if FORM == ABS_TERMS:
            top_d = tl.abs(top_d)
        return _set(a, 0, M) + (top_a,), _set(d, 0, N) + (top_d,)


@triton.jit
def _set(c, which: tl.constexpr, COUNT: tl.constexpr):
    """Set ``which`` of those of COUNT that ``c`` holds one after the other."""
    out = ()
    for i in tl.static_range(COUNT):
        out = out + (c[which * COUNT + i],)
    return out


@triton.jit
def _joined_sets(c, COUNT: tl.constexpr, SETS: tl.constexpr, COLS: tl.constexpr):
    """The sets of the parts of a word as one, of twice as many columns."""
    if SETS == 1:
        return c
    else:
        out, row = (), tl.zeros((1, COLS), tl.float32)
        for i in tl.static_range(COUNT):
            pair = tl.join(row + c[i], row + c[COUNT + i])
            out = out + (tl.reshape(pair, (1, 2 * COLS)),)
        return out


@triton.jit
def _limits(a, d, M: tl.constexpr, N: tl.constexpr, SETS: tl.constexpr, NOISE: tl.constexpr):
    out = ()
    for i in tl.static_range(SETS):
        out = out + (_limit(_set(a, i, M + 1), _set(d, i, N + 1), M, N, NOISE),)
    return out


@triton.jit
def _limit(a, d, M: tl.constexpr, N: tl.constexpr, NOISE: tl.constexpr):
    """Below this |x| no power, times any coefficient, comes near overflow; -1 if not even at 0."""
    SCALE: tl.constexpr = 2.0**-10
    top = tl.abs(a[0]) * SCALE
    for j in tl.static_range(1, M + 1):
        top += tl.abs(a[j]) * (j * SCALE)
    bottom = top * 0 + (1 + tl.abs(d[0])) * SCALE
    for k in tl.static_range(1, N + 1):
        bottom += tl.abs(d[k]) * (k * SCALE)
    both = top + bottom
    exponent = (both.to(tl.int32, bitcast=True) >> 23) - 126 + 10
    spare = (59 if NOISE else 60) - exponent
    bits = 127 + spare // (M if M > N else N if N > 0 else 1)
    power = tl.where(spare < 0, -1.0, (bits << 23).to(tl.float32, bitcast=True))
    return tl.where(both < float("inf"), power, float("inf"))  # NaN and inf come out by themselves


@triton.jit
def _larger(largest, x, which: tl.constexpr, SETS: tl.constexpr):
    out = ()
    for i in tl.static_range(SETS):
        out = out + (tl.maximum(largest[i], x) if i == which else largest[i],)
    return out


@triton.jit
def _exceeds(largest, limit, SETS: tl.constexpr):
    """Whether any is above its limit."""
    far = (largest[0] > limit[0]).to(tl.int32)
    for i in tl.static_range(1, SETS):
        far |= (largest[i] > limit[i]).to(tl.int32)
    return tl.max(far) > 0


@triton.jit
def _load(ptr, word, here, PARTS: tl.constexpr, ONE: tl.constexpr = False):
    """Words of PARTS elements; or one element for all."""
    if ONE:
        return tl.load(ptr + 0 * word, here, 0.0)
    elif PARTS == 1:
        return tl.load(ptr + word, here, 0.0)
    else:
        return tl.load(ptr.to(tl.pointer_type(tl.int32)) + word, here, 0)


@triton.jit
def _part(words, part: tl.constexpr, PARTS: tl.constexpr, ptr):
    """One element of each word, in float32."""
    if PARTS == 1:
        return words.to(tl.float32)
    elif ptr.dtype.element_ty == tl.bfloat16:
        bits = words & -65536 if part else words << 16
        return bits.to(tl.float32, bitcast=True)
    else:
        half = words >> 16 if part else words
        return half.to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32)


@triton.jit
def _packed(low, high, ptr, NVIDIA: tl.constexpr):
    if NVIDIA and ptr.dtype.element_ty == tl.bfloat16:
        return tl.inline_asm_elementwise(
            "cvt.rn.bf16x2.f32 $0, $2, $1;", "=r,f,f", [low, high], tl.int32, is_pure=True, pack=1
        )
    elif NVIDIA:
        return tl.inline_asm_elementwise(
            "cvt.rn.f16x2.f32 $0, $2, $1;", "=r,f,f", [low, high], tl.int32, is_pure=True, pack=1
        )
    else:
        low = _narrow(low, ptr).to(tl.uint16, bitcast=True).to(tl.int32)
        high = _narrow(high, ptr).to(tl.int16, bitcast=True).to(tl.int32)
        return low | (high << 16)


@triton.jit
def _narrow(v, ptr):
    """v in the type that ``ptr`` points to, rounded to nearest: the interpreter would cut."""
    if INTERPRETED and ptr.dtype.element_ty == tl.bfloat16:
        v = v.to(tl.float32)
        bits = v.to(tl.int32, bitcast=True)
        bits += 0x7FFF + ((bits >> 16) & 1)
        return tl.where(v == v, bits.to(tl.float32, bitcast=True), v).to(tl.bfloat16)
    else:
        return v.to(tl.float32).to(ptr.dtype.element_ty)


@triton.jit
def _split(t, DEEP: tl.constexpr, WIDE: tl.constexpr):
    """The four neighbours that a thread holds, one by one."""
    even, odd = tl.split(tl.reshape(t, (DEEP, WIDE, 2, 2)))
    e0, e2 = tl.split(even)
    e1, e3 = tl.split(odd)
    return e0, e1, e2, e3


@triton.jit
def _joined(four, DEEP: tl.constexpr, WIDE: tl.constexpr):
    """What ``_split`` took apart."""
    t = tl.join(tl.join(four[0], four[2]), tl.join(four[1], four[3]))
    return tl.reshape(t, (DEEP, 4 * WIDE))


@triton.jit
def _polynomials(x, a, d, FORM: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    """P, P', A and A' (with respect to |x| for "abs_terms")."""
    P, dP = _horner(x, a, M, True)
    A, dA = _horner(tl.abs(x) if FORM == ABS_TERMS else x, d, N, FORM == OFFSET)
    return P, dP, A, dA


@triton.jit
def _horner(x, c, DEGREE: tl.constexpr, CONSTANT: tl.constexpr):
    """The polynomial and its derivative; CONSTANT: whether c_0 can be other than 0."""
    if DEGREE == 0:
        return tl.zeros_like(x) + c[0], tl.zeros_like(x)
    else:
        P, dP = tl.zeros_like(x) + c[DEGREE], tl.zeros_like(x)
        for j in tl.static_range(DEGREE - 1, -1, -1):
            dP = P if j == DEGREE - 1 else dP * x + P
            P = P * x + c[j] if j > 0 or CONSTANT else P * x
        return P, dP


@triton.jit
def _denominator(A, q, FORM: tl.constexpr):
    return q + (A if FORM == FREE or FORM == ABS_TERMS else tl.abs(A))


@triton.jit
def _reciprocal(Q, NVIDIA: tl.constexpr):
    """1 / Q to one unit in the last place; Q is neither subnormal nor so large that 1 / Q is."""
    if NVIDIA:
        return tl.inline_asm_elementwise(
            "rcp.approx.ftz.f32 $0, $1;", "=f,f", [Q], dtype=tl.float32, is_pure=True, pack=1
        )
    else:
        return 1.0 / Q


@triton.jit
def _times_sign(F, A):
    bits = F.to(tl.int32, bitcast=True) ^ (A.to(tl.int32, bitcast=True) & -2147483648)
    return tl.where(A == 0, 0.0, bits.to(tl.float32, bitcast=True))


@triton.jit
def _added(
    sums, ga, gb, x, which: tl.constexpr, SETS: tl.constexpr, FORM: tl.constexpr, M: tl.constexpr,
    N: tl.constexpr,
):  # fmt: skip
    """Set ``which`` of sums plus dy dF/da_j, then -dy dF/db_k, for "abs_terms" without b's sign."""
    CONSTANT: tl.constexpr = FORM == OFFSET
    K: tl.constexpr = M + 1 + N + CONSTANT
    s = _set(sums, which, K)
    a, b = (s[0] + ga,), ()
    if CONSTANT:
        b = (s[M + 1] + gb,)
    power = x
    for k in tl.static_range(1, (M if M > N else N) + 1):
        if k <= M:
            a = a + (ga * power + s[k],)
        if k <= N:
            z = tl.abs(power) if FORM == ABS_TERMS else power
            b = b + (gb * z + s[M + k + CONSTANT],)
        power *= x
    out = ()
    for i in tl.static_range(SETS):
        out = out + (a + b if i == which else _set(sums, i, K))
    return out


@triton.jit
def _zeros(K: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, dtype: tl.constexpr):
    sums = ()
    for _ in tl.static_range(K):
        sums = sums + (tl.zeros((ROWS, COLS), dtype),)
    return sums


@triton.jit
def _plus(a, b, COUNT: tl.constexpr):
    out = ()
    for i in tl.static_range(COUNT):
        out = out + (a[i] + b[i],)
    return out


@triton.jit
def _zero_if(condition, a, COUNT: tl.constexpr):
    out = ()
    for i in tl.static_range(COUNT):
        out = out + (tl.where(condition, 0.0, a[i]),)
    return out


@triton.jit
def _reduced(sums, LAYOUT: tl.constexpr, K: tl.constexpr, SETS: tl.constexpr):
    """Each sum over the threads, in float64: a number, or in LANES one for every column."""
    out = ()
    for i in tl.static_range(K):
        s = tl.sum(sums[i], 0)
        if LAYOUT != LANES:
            s = tl.sum(s, 0)
        elif SETS == 2:
            odd = tl.sum(sums[K + i], 0)
            s = tl.reshape(tl.join(s, odd), (2 * s.shape[0],))
        out = out + (s.to(tl.float64),)
    return out


@triton.jit
def _without_constant(db, FORM: tl.constexpr, N: tl.constexpr):
    out = ()
    for k in tl.static_range(0 if FORM == OFFSET else 1, N + 1):
        out = out + (db[k],)
    return out


@triton.jit
def _noisy(
    a, d, offset, seed, alpha, middle, minor, FORM: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
    NOISE: tl.constexpr,
):  # fmt: skip
    """The coefficients that each element sees: c (1 + alpha u), u as in ``padenet/noise.py``.

    NOISE 2: memory holds (..., middle, minor), the shape says (..., minor, middle).
    """
    if NOISE == 0:
        return a, d
    else:
        return _with_noise(a, d, offset, seed, alpha, middle, minor, FORM, M, N, NOISE)


@triton.jit
def _with_noise(
    a, d, offset, seed, alpha, middle, minor, FORM: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
    NOISE: tl.constexpr,
):  # fmt: skip
    index = offset.to(tl.int64)
    if NOISE == 2:
        place = index % (middle * minor)
        index += place % minor * middle + place // minor - place
    CONSTANT: tl.constexpr = FORM == OFFSET
    u, v = (), (() if CONSTANT else (d[0],))
    w0, w1, w2, w3 = _philox(seed, index, 0)
    for i in tl.static_range(M + 1 + N + CONSTANT):
        if i % 10 == 0 and i > 0:
            w0, w1, w2, w3 = _philox(seed, index, i // 10)
        f = _slot(w0, w1, w2, w3, i % 10)
        c = a[i] if i <= M else d[i - M - CONSTANT]
        # u = 2 f - 3 + 1/4096
        c = f * (2 * alpha * c) + (c - alpha * c * (3 - 1 / 4096))
        if i <= M:
            u = u + (c,)
        else:
            v = v + (c,)
    return u, v


@triton.jit
def _slot(w0, w1, w2, w3, S: tl.constexpr):
    """Slot S as the mantissa of a number in [1, 2)."""
    if S == 8 or S == 9:
        low, high = (w0, w1) if S == 8 else (w2, w3)
        bits = ((low << 11) & 0x7F800) | ((high << 19) & 0x780000)
    else:
        w = w0 if S // 2 == 0 else w1 if S // 2 == 1 else w2 if S // 2 == 2 else w3
        bits = ((w << 3) if S % 2 else (w >> 9)) & 0x7FF800
    return (bits | 0x3F800000).to(tl.float32, bitcast=True)


@triton.jit
def _philox(seed, index, DRAW: tl.constexpr):
    k0, k1 = seed.to(tl.uint32), (seed >> 32).to(tl.uint32)
    c0, c1 = index.to(tl.uint32), (index >> 32).to(tl.uint32)
    c2, c3 = tl.full(c0.shape, DRAW, tl.uint32), tl.zeros(c0.shape, tl.uint32)
    m0, m1 = tl.full((), 0xD2511F53, tl.uint32), tl.full((), 0xCD9E8D57, tl.uint32)
    w0, w1 = tl.full((), 0x9E3779B9, tl.uint32), tl.full((), 0xBB67AE85, tl.uint32)
    for _ in tl.static_range(7):
        h0, l0 = tl.umulhi(c0, m0), c0 * m0
        h1, l1 = tl.umulhi(c2, m1), c2 * m1
        c0, c1, c2, c3 = h1 ^ c1 ^ k0, l1, h0 ^ c3 ^ k1, l0
        k0, k1 = k0 + w0, k1 + w1
    return c0, c1, c2, c3


@triton.jit
def _far(g, x, a, d, q, FORM: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    """F, and g times dF/dx, dF/da_j and -dF/dd_k, of any x, in float64.

    Written in z = |x|, the sign of x moved into the odd coefficients. Up to EDGE by Horner's rule;
    beyond it P z^-mm and Q z^-nn in t = 1/z, mm and nn the highest powers whose coefficient is not
    zero, and the powers of z are multiplied back last.
    """
    TOP: tl.constexpr = M if M > N else N if N > 0 else 1
    EDGE: tl.constexpr = 2.0 ** (480 // TOP)
    sign = tl.where(x < 0, -1.0, 1.0).to(tl.float64)
    z = tl.abs(x)
    beyond = z > EDGE
    a = _folded(a, sign, M, True)
    d = _folded(d, sign, N, FORM != ABS_TERMS)

    near = tl.where(beyond, EDGE, z)
    P, dP = _horner(near, a, M, True)
    A, dA = _horner(near, d, N, True)
    s = _sign64(A, z, FORM)
    Q = _denominator(A, q, FORM)
    F = P / Q
    slope = (dP - s * dA * F) / Q

    far = tl.where(beyond, z, EDGE)
    t = 1.0 / far
    mm, nn = _degree(a, M), _degree(d, N)
    P, dP = _descending(a, t, mm, M)
    A, dA = _descending(d, t, nn, N)
    s_far = _sign64(A, z, FORM)
    Q_far = _denominator(A, q * _power(far, t, -nn, N), FORM)
    R = P / Q_far
    slope_far = (dP - s_far * dA * R) / Q_far

    F = tl.where(beyond, _product(R, far, t, mm - nn, TOP), F)
    dx = tl.where(
        beyond, _product(g * sign * slope_far, far, t, mm - nn - 1, M + N + 1), g * sign * slope
    )
    ga, gb = g / Q, g / Q * s * F
    ga_far, gb_far = g / Q_far, g * s_far * R / Q_far
    if FORM == ABS_TERMS:
        gb, gb_far = g / Q * F, g * R / Q_far
    da, db = (), ()
    p = tl.full(x.shape, 1.0, tl.float64)
    for j in tl.static_range(TOP + 1):
        odd = sign if j % 2 else 1.0
        if j <= M:
            w = _product(ga_far, far, t, j - nn, M + N)
            da = da + (tl.where(beyond, w, ga * p) * odd,)
        if j <= N:
            w = _product(gb_far, far, t, mm - 2 * nn + j, M + 2 * N)
            w = tl.where(beyond, w, gb * p)
            db = db + (w if FORM == ABS_TERMS else w * odd,)
        p *= near
    return F, dx, da, db


@triton.jit
def _folded(c, sign, DEGREE: tl.constexpr, FOLD: tl.constexpr):
    out = ()
    for j in tl.static_range(DEGREE + 1):
        v = tl.zeros_like(sign) + c[j]
        out = out + (v * sign if FOLD and j % 2 else v,)
    return out


@triton.jit
def _sign64(A, z, FORM: tl.constexpr):
    if FORM == FREE:
        return tl.full(A.shape, 1.0, tl.float64)
    else:
        v = z if FORM == ABS_TERMS else A
        return tl.where(v > 0, 1.0, tl.where(v < 0, -1.0, tl.where(v == 0, 0.0, v)))


@triton.jit
def _degree(c, DEGREE: tl.constexpr):
    top = tl.zeros(c[0].shape, tl.int32)
    for j in tl.static_range(DEGREE + 1):
        top = tl.where(c[j] != 0, j, top)
    return top


@triton.jit
def _descending(c, t, top, DEGREE: tl.constexpr):
    """``sum_j c_j z^(j - top)`` and ``sum_j j c_j z^(j - top)``; the terms above ``top`` are 0."""
    P, dP = tl.zeros_like(t), tl.zeros_like(t)
    for j in tl.static_range(DEGREE + 1):
        P = tl.where(top >= j, P * t + c[j], P)
        dP = tl.where(top >= j, dP * t + j * c[j], dP)
    return P, dP


@triton.jit
def _power(z, t, e, MOST: tl.constexpr):
    """z^e for |e| <= MOST."""
    y = tl.full(z.shape, 1.0, tl.float64)
    for i in range(MOST):
        y *= tl.where(e > i, z, tl.where(e < -i, t, 1.0))
    return y


@triton.jit
def _product(y, z, t, e, MOST: tl.constexpr):
    """y z^e, and 0 for y = 0 even if the power overflows."""
    return tl.where(y == 0, 0.0, y * _power(z, t, e, MOST))
