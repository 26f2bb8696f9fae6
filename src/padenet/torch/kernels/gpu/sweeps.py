"""The Triton kernels. Formula: ``torch/reference.py``; how they are launched: ``__init__.py``.

A tensor is a matrix of ``width`` columns in memory order. It is cut into tiles of ROWS x COLS, and
a program takes ``steps`` of them: ``abreast`` programs advance side by side through a stretch of
the tensor. The axes of the grid count units or blocks of columns, programs abreast and stretches;
with one unit programs abreast, 1 and stretches. The layouts:

    FLAT    one unit: a row is COLS words of the tensor, whatever its shape.
    RUNS    ``span`` neighbouring columns share a unit: a program stays with one unit.
    LANES   short spans: every column of a tile has a unit of its own.

Rows and columns count words: one element, or PARTS = 2 of 16 bits. A thread holds four words of a
tile and computes them one element after the other, while the next four are on their way.

WHOLE: a span (in LANES the width) is a whole number of tiles wide, and there are rows enough for
one. Then a tile that would reach beyond the end lies farther back, over the one before it, and what
it has in common with that belongs to the other. FLAT is so in backward, unless one program does all
of it. WIDTH is the width, if it is compiled in, or 0.

This is done in float32 as long as no |x| lies above a limit that the coefficients set. If some did,
the program sweeps its tiles again, in float64 and with the powers that would overflow divided out
(``far.py``). The same sweep takes the last elements of a FLAT tensor, fewer than 16, which no
aligned load covers.

Sums: at most 512 elements one after the other in a thread, then a tree over the threads, and in
float64 over the programs (``total``). No order depends on timing: the same bits every time.

``a`` holds a_0 .. a_m, ``d`` holds d_0 .. d_n: d_0 is 0 except for "offset", and d_k is |b_k| for
"abs_terms". Both are tuples of numbers, of rows (LANES) or of tiles (noise).

NVIDIA is 0, or 1, or 2 if the GPU has minima and maxima of magnitudes (``xorsign.abs``).
"""

import triton
import triton.language as tl

from padenet.torch.kernels.gpu.draws import noisy
from padenet.torch.kernels.gpu.far import evaluate
from padenet.torch.kernels.gpu.formula import (
    ABSOLUTE,
    HAS_B0,
    PER_TERM,
    coefficients,
    denominator,
    exceeds,
    in_threads,
    joined_sets,
    larger,
    limits,
    pick_set,
    polynomials,
    product,
    reciprocal,
    times_sign,
    with_sign,
)
from padenet.torch.kernels.gpu.sums import added, plus, reduced, without_constant, zero_if, zeros
from padenet.torch.kernels.gpu.tiles import (
    LANES,
    fetch,
    left_over,
    next_tile,
    offsets_of,
    only_own,
    piece_of,
    place_of,
    position,
    put,
    whole_tiles,
)
from padenet.torch.kernels.gpu.totals import total as total  # a kernel too
from padenet.torch.kernels.gpu.totals import write_sum
from padenet.torch.kernels.gpu.words import narrow, part, widen

_RUNTIME = ["seed", "rows", "steps", "skew", "abreast", "down", "over", "numel", "middle", "minor"]


@triton.jit(do_not_specialize=_RUNTIME)
def forward(
    x_ptr, y_ptr, a_ptr, b_ptr, seed_ptr, seed: "i64", q, alpha,
    rows, steps, skew, abreast, down, over, numel, width, span, middle, minor,
    FORM: tl.constexpr, M: tl.constexpr, N: tl.constexpr, NOISE: tl.constexpr,
    LAYOUT: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, PARTS: tl.constexpr,
    UNIT: tl.constexpr, WIDTH: tl.constexpr, WHOLE: tl.constexpr, FAR_ROWS: tl.constexpr,
    FAR_COLS: tl.constexpr, BIG: tl.constexpr,
    NVIDIA: tl.constexpr, BATCH: tl.constexpr, MORE: tl.constexpr,
):  # fmt: skip
    DEEP: tl.constexpr = ROWS // 4 if LAYOUT == LANES else ROWS
    WIDE: tl.constexpr = COLS if LAYOUT == LANES else COLS // 4
    SETS: tl.constexpr = PARTS if LAYOUT == LANES else 1
    PACKED: tl.constexpr = PARTS == 2 and NVIDIA == 2
    pitch = WIDTH if WIDTH > 0 else width * UNIT
    base, unit, slot, place = place_of(
        rows, steps, skew if NOISE else 0, abreast, down, over, numel, pitch, span * UNIT,
        LAYOUT, ROWS, COLS, PARTS, BIG,
    )  # fmt: skip
    first, stop = place.first, place.stop
    x_ptr += base
    y_ptr += base
    four = _fetch_batch(x_ptr, first, place, LAYOUT, ROWS, COLS, PARTS, WHOLE, BATCH)
    a, d = coefficients(a_ptr, b_ptr, unit, pitch, span * UNIT, FORM, M, N, LAYOUT, COLS, PARTS)
    own_a, own_d = a, d
    if NOISE > 0:
        own_a, own_d = in_threads(
            a_ptr, b_ptr, unit, a, d, numel, FORM, M, N, LAYOUT, NOISE, DEEP, WIDE
        )
    if seed_ptr is not None:
        seed = tl.load(seed_ptr)

    largest = zeros(1 if PACKED else SETS, DEEP, WIDE, tl.int32 if PACKED else tl.float32)
    noise = base, seed, alpha, middle, minor, own_a, own_d
    if MORE:
        for n in range(first, stop, abreast * BATCH):
            held = four
            four = _fetch_batch(
                x_ptr, n + abreast * BATCH, place, LAYOUT, ROWS, COLS, PARTS, WHOLE, BATCH
            )
            largest = _forward_batch(
                held, y_ptr, n, place, a, d, q, noise, largest,
                FORM, M, N, NOISE, LAYOUT, ROWS, COLS, PARTS, SETS, WHOLE, NVIDIA, BATCH,
            )  # fmt: skip
    else:
        largest = _forward_batch(
            four, y_ptr, first, place, a, d, q, noise, largest,
            FORM, M, N, NOISE, LAYOUT, ROWS, COLS, PARTS, SETS, WHOLE, NVIDIA, BATCH,
        )  # fmt: skip

    limit = limits(a, d, M, N, SETS, NOISE)
    some_far = exceeds(largest, limit, SETS, PACKED, x_ptr)
    cut, rest = left_over(numel, place, COLS * PARTS, LAYOUT)
    if some_far or cut < stop:
        end = place.end
        tl.debug_barrier()  # elements written above are written again, by other threads
        far_limit = joined_sets(limit, 1, SETS, COLS)[0]
        far_a = joined_sets(a, M + 1, SETS, COLS)
        far_d = joined_sets(d, N + 1, SETS, COLS)
        for n in range(tl.where(some_far, first, cut), stop, abreast):
            for piece in range(0, ROWS * COLS * PARTS, FAR_ROWS * FAR_COLS):
                offset, mine = piece_of(
                    n, piece, place, rest, LAYOUT, ROWS, COLS, PARTS, FAR_ROWS, FAR_COLS
                )
                x = tl.load(x_ptr + offset, mine, 0.0)
                mine &= (tl.abs(widen(x)) > far_limit) | (offset >= end)
                u, v = noisy(
                    far_a, far_d, far_a + far_d, base + offset, seed, alpha, middle, minor,
                    FORM, M, N, NOISE, NVIDIA,
                )  # fmt: skip
                wide = widen(x)
                y, dx, da, db = evaluate(wide, wide, u, v, q, FORM, M, N)
                tl.store(y_ptr + offset, narrow(y, y_ptr), mine)


@triton.jit
def _forward_batch(
    held, y_ptr, n, place, a, d, q, noise, largest,
    FORM: tl.constexpr, M: tl.constexpr, N: tl.constexpr, NOISE: tl.constexpr,
    LAYOUT: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, PARTS: tl.constexpr,
    SETS: tl.constexpr, WHOLE: tl.constexpr, NVIDIA: tl.constexpr, BATCH: tl.constexpr,
):  # fmt: skip
    """Tile ``n`` and the next BATCH - 1 of this program, and the largest |x| so far."""
    PACKED: tl.constexpr = PARTS == 2 and NVIDIA == 2
    base, seed, alpha, middle, minor, own_a, own_d = noise
    abreast, stop = place.abreast, place.stop
    row, column = position(n, place, ROWS, COLS, LAYOUT)
    for j in tl.static_range(BATCH):
        out = ()
        for i in tl.static_range(4 * PARTS):
            words = held[4 * j + i // PARTS]
            x = part(words, i % PARTS, PARTS, y_ptr)
            largest = larger(largest, words, x, i, SETS, PACKED, y_ptr)
            u, v = noisy(
                pick_set(a, i % SETS, M + 1), pick_set(d, i % SETS, N + 1),
                pick_set(own_a, i % SETS, M + 1) + pick_set(own_d, i % SETS, N + 1),
                base + offsets_of(row, column, i, place, LAYOUT, ROWS, COLS, PARTS, WHOLE),
                seed, alpha, middle, minor, FORM, M, N, NOISE, NVIDIA,
            )  # fmt: skip
            P, dP, A, dA = polynomials(x, u, v, FORM, M, N, False)
            F = P * reciprocal(denominator(A, q, FORM), NVIDIA)
            if M + N == 0:  # a constant has no x in it, and NaN must stay
                F = tl.where(x == x, F, x)
            out = out + (F,)
        put(y_ptr, row, column, place, out, LAYOUT, ROWS, COLS, PARTS, WHOLE, WHOLE, NVIDIA)
        more = n + (j + 1) * abreast < stop
        row, column = next_tile(row, column, more, place, LAYOUT, ROWS, COLS, False)
    return largest


@triton.jit
def _fetch_batch(
    x_ptr, n, place, LAYOUT: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
    PARTS: tl.constexpr, WHOLE: tl.constexpr, BATCH: tl.constexpr,
):  # fmt: skip
    """The words of tile ``n`` and of the next BATCH - 1 of this program."""
    abreast, stop = place.abreast, place.stop
    row, column = position(tl.minimum(n, stop), place, ROWS, COLS, LAYOUT)
    held = ()
    for j in tl.static_range(BATCH):
        held = held + fetch(
            x_ptr, row, column, place, LAYOUT, ROWS, COLS, PARTS, WHOLE, PARTS, False
        )
        more = n + (j + 1) * abreast < stop
        row, column = next_tile(row, column, more, place, LAYOUT, ROWS, COLS, False)
    return held


@triton.jit(do_not_specialize=_RUNTIME)
def backward(
    dy_ptr, x_ptr, dx_ptr, a_ptr, b_ptr, sums_ptr, da_ptr, db_ptr, seed_ptr, seed: "i64", q, alpha,
    rows, steps, skew, abreast, down, over, numel, width, span, middle, minor,
    FORM: tl.constexpr, M: tl.constexpr, N: tl.constexpr, NOISE: tl.constexpr,
    LAYOUT: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, PARTS: tl.constexpr,
    UNIT: tl.constexpr, WIDTH: tl.constexpr, WHOLE: tl.constexpr, FAR_ROWS: tl.constexpr,
    FAR_COLS: tl.constexpr, BIG: tl.constexpr,
    NVIDIA: tl.constexpr, ONE_DY: tl.constexpr, ALONE: tl.constexpr, EARLY: tl.constexpr,
    ONE_Q: tl.constexpr,
):  # fmt: skip
    """dx, and the sums of this program: for ``total``, or ALONE in its unit, da and db.

    EARLY: ``total`` may be launched before the last programs are through; it waits for them.
    """
    K: tl.constexpr = M + 1 + N + FORM // HAS_B0
    DEEP: tl.constexpr = ROWS // 4 if LAYOUT == LANES else ROWS
    WIDE: tl.constexpr = COLS if LAYOUT == LANES else COLS // 4
    SETS: tl.constexpr = PARTS if LAYOUT == LANES else 1
    PACKED: tl.constexpr = PARTS == 2 and NVIDIA == 2
    DY_PARTS: tl.constexpr = 1 if ONE_DY else PARTS
    TURN: tl.constexpr = 2 if NOISE == 0 and (PARTS == 1 or WHOLE) else 1  # tiles in a turn
    pitch = WIDTH if WIDTH > 0 else width * UNIT
    base, unit, slot, place = place_of(
        rows, steps, skew, abreast, down, over, numel, pitch, span * UNIT,
        LAYOUT, ROWS, COLS, PARTS, BIG,
    )  # fmt: skip
    first, stop = place.first, place.stop
    x_ptr += base
    dx_ptr += base
    dy_ptr += 0 if ONE_DY else base
    row, column = position(first, place, ROWS, COLS, LAYOUT)
    four = fetch(x_ptr, row, column, place, LAYOUT, ROWS, COLS, PARTS, WHOLE, PARTS, False)
    dfour = fetch(dy_ptr, row, column, place, LAYOUT, ROWS, COLS, PARTS, WHOLE, DY_PARTS, ONE_DY)
    a, d = coefficients(a_ptr, b_ptr, unit, pitch, span * UNIT, FORM, M, N, LAYOUT, COLS, PARTS)
    own_a, own_d = in_threads(
        a_ptr, b_ptr, unit, a, d, numel, FORM, M, N, LAYOUT, NOISE, DEEP, WIDE
    )
    if seed_ptr is not None:
        seed = tl.load(seed_ptr)

    largest = zeros(1 if PACKED else SETS, DEEP, WIDE, tl.int32 if PACKED else tl.float32)
    sums = zeros(SETS * K, DEEP, WIDE, tl.float32)
    noise = base, seed, alpha, middle, minor, own_a, own_d
    n = first
    # WHOLE: first the tiles that lie where they should, which need no mask, then the rest
    for REST in tl.static_range(0 if WHOLE else 1, 2):
        until = stop
        if not REST:
            until = tl.minimum(stop, whole_tiles(place, LAYOUT, ROWS, COLS, PARTS))
        tiles = tl.cdiv(tl.maximum(until - n, 0), abreast)
        for _ in tl.range(0, tiles, loop_unroll_factor=1 if WHOLE and REST else TURN):
            held, dheld, at, begin = four, dfour, row, column
            n += abreast
            row, column = next_tile(row, column, n < stop, place, LAYOUT, ROWS, COLS, WHOLE)
            four = fetch(x_ptr, row, column, place, LAYOUT, ROWS, COLS, PARTS, WHOLE, PARTS, False)
            dfour = fetch(
                dy_ptr, row, column, place, LAYOUT, ROWS, COLS, PARTS, WHOLE, DY_PARTS, ONE_DY
            )
            sums, largest = _backward_tile(
                held, dheld, at, begin, dx_ptr, dy_ptr, place, a, d, q, noise, sums, largest,
                FORM, M, N, NOISE, LAYOUT, ROWS, COLS, PARTS, SETS, WHOLE, WHOLE and REST,
                NVIDIA, DY_PARTS, ONE_Q,
            )  # fmt: skip

    if EARLY and not ALONE:
        tl.extra.cuda.gdc_launch_dependents()
    limit = limits(a, d, M, N, SETS, NOISE)
    total = reduced(sums, LAYOUT, K, SETS)
    some_far = exceeds(largest, limit, SETS, PACKED, x_ptr)
    cut, rest = left_over(numel, place, COLS * PARTS, LAYOUT)
    if some_far or cut < stop:
        tl.debug_barrier()  # elements written above are written again, by other threads
        end = place.end
        far_limit = joined_sets(limit, 1, SETS, COLS)[0]
        far_a = joined_sets(a, M + 1, SETS, COLS)
        far_d = joined_sets(d, N + 1, SETS, COLS)
        far_sums = zeros(K, FAR_ROWS, FAR_COLS, tl.float64)
        for n in range(tl.where(some_far, first, cut), stop, abreast):
            for piece in range(0, ROWS * COLS * PARTS, FAR_ROWS * FAR_COLS):
                offset, mine = piece_of(
                    n, piece, place, rest, LAYOUT, ROWS, COLS, PARTS, FAR_ROWS, FAR_COLS
                )
                mine &= offset >= tl.where(some_far, 0, end)
                x = tl.load(x_ptr + offset, mine, 0.0)
                dy = tl.load(dy_ptr + (0 * offset if ONE_DY else offset), mine, 0.0)
                u, v = noisy(
                    far_a, far_d, far_a + far_d, base + offset, seed, alpha, middle, minor,
                    FORM, M, N, NOISE, NVIDIA,
                )  # fmt: skip
                y, dx, da, db = evaluate(widen(dy), widen(x), u, v, q, FORM, M, N)
                far_sums = plus(far_sums, da + without_constant(db, FORM, N), K)
                mine &= (tl.abs(widen(x)) > far_limit) | (offset >= end)
                tl.store(dx_ptr + offset, narrow(dx, dx_ptr), mine)
        again = reduced(far_sums, LAYOUT, K, 1)
        total = plus(zero_if(some_far, total, K), again, K)

    if ALONE:
        for i in tl.static_range(K):
            write_sum(da_ptr, db_ptr, b_ptr, unit, None, i, total[i], FORM, M, N)
    elif LAYOUT == LANES:
        columns = pitch * PARTS
        column = unit * PARTS + tl.arange(0, COLS * PARTS)
        for i in tl.static_range(K):
            row = (i * abreast * tl.num_programs(2) + slot).to(tl.int64)
            tl.store(sums_ptr + row * columns + column, total[i], column < columns)
    else:
        programs = tl.num_programs(0) * tl.num_programs(1) * tl.num_programs(2)
        for i in tl.static_range(K):
            tl.store(sums_ptr + i * programs + slot, total[i])


@triton.jit
def _backward_tile(
    held, dheld, row, column, dx_ptr, dy_ptr, place, a, d, q, noise, sums, largest,
    FORM: tl.constexpr, M: tl.constexpr, N: tl.constexpr, NOISE: tl.constexpr,
    LAYOUT: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, PARTS: tl.constexpr,
    SETS: tl.constexpr, WHOLE: tl.constexpr, OWN: tl.constexpr, NVIDIA: tl.constexpr,
    DY_PARTS: tl.constexpr, ONE_Q: tl.constexpr,
):  # fmt: skip
    """dx of a tile, and the sums and the largest |x| so far. OWN: it may lie farther back."""
    PACKED: tl.constexpr = PARTS == 2 and NVIDIA == 2
    base, seed, alpha, middle, minor, own_a, own_d = noise
    if OWN:
        held = only_own(held, row, column, place, LAYOUT, ROWS, COLS, PARTS)  # no pole of others
        dheld = only_own(dheld, row, column, place, LAYOUT, ROWS, COLS, PARTS)
    out = ()
    for i in tl.static_range(4 * PARTS):
        words = held[i // PARTS]
        x = part(words, i % PARTS, PARTS, dx_ptr)
        dy = part(dheld[i // PARTS], i % PARTS, DY_PARTS, dy_ptr)
        largest = larger(largest, words, x, i, SETS, PACKED, dx_ptr)
        u, v = noisy(
            pick_set(a, i % SETS, M + 1), pick_set(d, i % SETS, N + 1),
            pick_set(own_a, i % SETS, M + 1) + pick_set(own_d, i % SETS, N + 1),
            base + offsets_of(row, column, i, place, LAYOUT, ROWS, COLS, PARTS, WHOLE),
            seed, alpha, middle, minor, FORM, M, N, NOISE, NVIDIA,
        )  # fmt: skip
        if NOISE == 0:
            u, v = pick_set(own_a, i % SETS, M + 1), pick_set(own_d, i % SETS, N + 1)
        P, dP, A, dA = polynomials(x, u, v, FORM, M, N, LAYOUT != LANES and NOISE == 0)
        r = reciprocal(denominator(A, q, FORM), NVIDIA)
        F = P * r
        if ABSOLUTE & FORM == 0:
            sF = F
        elif PER_TERM & FORM:
            sF = times_sign(F, x)
        else:
            sF = P * with_sign(r, A, NVIDIA, ONE_Q)
        g = product(dy, r, NVIDIA)
        out = out + (g * (dP - dA * sF),)
        sums = added(sums, g, F, sF, x, i % SETS, SETS, FORM, M, N, NVIDIA)
    put(dx_ptr, row, column, place, out, LAYOUT, ROWS, COLS, PARTS, WHOLE, OWN, NVIDIA)
    return sums, largest
