"""Where a program finds its words, and how a thread gets at them. Layouts: ``sweeps.py``."""

from typing import Any, NamedTuple

import triton
import triton.language as tl

from padenet.torch.kernels.gpu.words import joined, narrow, packed, split

FLAT, RUNS, LANES = (tl.constexpr(i) for i in range(3))


class Place(NamedTuple):
    """What the tiles of a program need to know."""

    end: Any  # elements that aligned loads reach (FLAT), or all
    width: Any  # words from a row to the next
    rows: Any  # that belong to the unit, as do the columns
    columns: Any
    across: Any  # tiles side by side in a unit
    abreast: Any  # programs that advance side by side
    first: Any  # the tile of the unit that is its first: then every ``abreast``-th
    stop: Any  # to here; equal to ``first`` if it has none
    down: Any  # abreast // across: from one tile to the next
    over: Any  # abreast % across
    last: Any  # the row at which its last tile begins, moved back to lie inside; FLAT: the word


@triton.jit
def place_of(
    rows, steps, skew, abreast, down, over, numel, width, span, LAYOUT: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr, PARTS: tl.constexpr, BIG: tl.constexpr,
):  # fmt: skip
    """Where the unit of this program begins, its unit (in LANES its first column), the place of its
    sums, and its ``Place``. A stretch ends at programs of a low number earlier, by ``skew`` / 2^16
    tiles a program.

    Divisions take long, and loads wait for what is computed here: they are left to the host.
    """
    if BIG:
        rows = tl.cast(rows, tl.int64)  # and a tile beyond the last must not overflow either
    unit, turn, stretch = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    if LAYOUT == FLAT:
        turn, unit, start, columns, across = unit, 0, 0, COLS, 1
    elif LAYOUT == LANES:
        unit, across = unit * COLS, 1
        start, columns = unit, tl.minimum(COLS, width - unit)
    else:
        unit = unit.to(tl.int64)  # its span, coefficients or sums may lie beyond 2^31
        across, start, columns = tl.cdiv(span, COLS), unit * span, span
    slot = stretch * abreast + turn
    if LAYOUT == RUNS:
        slot += unit * abreast * tl.num_programs(2)
    early = ((abreast - 1 - turn) * skew) >> 16
    stop = tl.minimum(((stretch + 1) * steps - early) * abreast, tl.cdiv(rows, ROWS) * across)
    first = tl.minimum(tl.maximum(stretch * steps - early, 0) * abreast + turn, stop)
    end = numel // 16 * 16 if LAYOUT == FLAT else numel
    if BIG:
        width, end = tl.cast(width, tl.int64), tl.cast(end, tl.int64)  # width may be a constant 1
    base = start.to(tl.int64) * PARTS if LAYOUT != FLAT else 0
    last = tl.maximum(stop - 1, 0)
    if LAYOUT == FLAT:
        last = tl.minimum(last.to(end.dtype) * (COLS // 4), end // (4 * PARTS) - COLS // 4)
    elif LAYOUT == LANES:
        last = tl.minimum(last * ROWS, rows - ROWS)
    else:
        last = rows - ROWS
    place = Place(end, width, rows, columns, across, abreast, first, stop, down, over, last)
    return base, unit, slot, place


@triton.jit
def position(n, place, ROWS: tl.constexpr, COLS: tl.constexpr, LAYOUT: tl.constexpr):
    """Row and column of tile ``n`` of the unit."""
    if LAYOUT == RUNS:
        return n // place.across * ROWS, n % place.across * COLS
    else:
        return n * ROWS, 0


@triton.jit
def next_tile(
    row, column, more, place, LAYOUT: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
    SURE: tl.constexpr,
):  # fmt: skip
    """The tile after that at row and column; outside the tensor if there are no more. SURE: or just
    anywhere, as where tiles are WHOLE and ``fetch`` stays inside by itself."""
    rows, across, abreast = place.rows, place.across, place.abreast
    if LAYOUT == RUNS:
        row += place.down * ROWS
        column += place.over * COLS
        inside = column < across * COLS
        row = tl.where(inside, row, row + ROWS)
        column = tl.where(inside, column, column - across * COLS)
    else:
        row += abreast * ROWS
    if not SURE:
        row = tl.where(more, row, rows)
    return row, column


@triton.jit
def whole_tiles(
    place, LAYOUT: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, PARTS: tl.constexpr
):
    """How many tiles of the unit do not reach beyond its end."""
    if LAYOUT == FLAT:
        return (place.end // (COLS * PARTS)).to(tl.int32)
    else:
        return place.rows // ROWS * place.across


@triton.jit
def _words(
    row, column, place, LAYOUT: tl.constexpr, PIECE: tl.constexpr, COLS: tl.constexpr,
    WHOLE: tl.constexpr,
):  # fmt: skip
    """Offsets of the words in the first PIECE rows of a tile.

    WHOLE: a tile that reaches beyond the end lies farther back instead, over the one before it. So
    no load needs a mask, which would take a comparison and a zero for every word.
    """
    width, last = place.width, place.last
    i, j = tl.arange(0, PIECE)[:, None], tl.arange(0, COLS)[None, :]
    if not WHOLE:
        start = row * width + column
    elif LAYOUT == FLAT:  # in fours, so that the compiler knows that loads are aligned
        start = 4 * tl.minimum(row.to(last.dtype) * (COLS // 4), last)
    else:
        start = tl.minimum(row, last) * width + column
    return start + (i * width + j)


@triton.jit
def _inside(
    row, column, place, LAYOUT: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
    PARTS: tl.constexpr,
):  # fmt: skip
    """Which words of a tile are inside the tensor."""
    if LAYOUT == FLAT:
        return _words(row, column, place, LAYOUT, ROWS, COLS, False) < place.end // PARTS
    else:
        i, j = tl.arange(0, ROWS)[:, None], tl.arange(0, COLS)[None, :]
        return (row + i < place.rows) & (column + j < place.columns)


@triton.jit
def fetch(
    ptr, row, column, place, LAYOUT: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
    PARTS: tl.constexpr, WHOLE: tl.constexpr, DY_PARTS: tl.constexpr, ONE: tl.constexpr,
):  # fmt: skip
    """Four words for each thread: side by side, or in LANES below each other. ONE: one element in
    place of all words."""
    PIECES: tl.constexpr = 4 if LAYOUT == LANES else 1
    PIECE: tl.constexpr = ROWS // PIECES
    pointer = ptr if DY_PARTS == 1 else ptr.to(tl.pointer_type(tl.int32))
    word = _words(row, column, place, LAYOUT, PIECE, COLS, WHOLE)
    pointer += 0 * word if ONE else word
    four = ()
    for i in tl.static_range(PIECES):
        at = pointer + (0 if ONE else i * PIECE * place.width)
        if WHOLE:
            four = four + (tl.load(at),)
        else:
            here = _inside(row + i * PIECE, column, place, LAYOUT, PIECE, COLS, PARTS)
            four = four + (tl.load(at, here, 0),)
    return four if LAYOUT == LANES else split(four[0], ROWS, COLS // 4)


@triton.jit
def put(
    ptr, row, column, place, values, LAYOUT: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
    PARTS: tl.constexpr, WHOLE: tl.constexpr, OWN: tl.constexpr, NVIDIA: tl.constexpr,
):  # fmt: skip
    """Values to the tile. WHOLE: no mask is needed, or OWN: only that of its own words, because it
    may lie farther back."""
    PIECES: tl.constexpr = 4 if LAYOUT == LANES else 1
    PIECE: tl.constexpr = ROWS // PIECES
    words = ()
    for i in tl.static_range(4):
        if PARTS == 1:
            words = words + (narrow(values[i], ptr),)
        else:
            words = words + (packed(values[2 * i], values[2 * i + 1], ptr, NVIDIA),)
    if LAYOUT != LANES:
        words = (joined(words, ROWS, COLS // 4),)
    word = _words(row, column, place, LAYOUT, PIECE, COLS, OWN)
    pointer = (ptr if PARTS == 1 else ptr.to(tl.pointer_type(tl.int32))) + word
    for i in tl.static_range(PIECES):
        below = i * PIECE * place.width
        if OWN:
            tl.store(pointer + below, words[i], word + below >= row * place.width)
        elif WHOLE:
            tl.store(pointer + below, words[i])
        else:
            here = _inside(row + i * PIECE, column, place, LAYOUT, PIECE, COLS, PARTS)
            tl.store(pointer + below, words[i], here)


@triton.jit
def only_own(
    four, row, column, place, LAYOUT: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
    PARTS: tl.constexpr,
):  # fmt: skip
    """Words of a tile that may lie farther back, with 0 for those that are not its own."""
    out = ()
    for i in tl.static_range(4):
        word = offsets_of(row, column, i * PARTS, place, LAYOUT, ROWS, COLS, PARTS, True) // PARTS
        out = out + (tl.where(word >= row * place.width, four[i], 0),)
    return out


@triton.jit
def offsets_of(
    row, column, i: tl.constexpr, place, LAYOUT: tl.constexpr, ROWS: tl.constexpr,
    COLS: tl.constexpr, PARTS: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    """Offsets of element ``i`` of those that the threads got from ``fetch``."""
    WORD: tl.constexpr = i // PARTS
    if LAYOUT == LANES:
        word = _words(row, column, place, LAYOUT, ROWS // 4, COLS, WHOLE)
        word += WORD * (ROWS // 4) * place.width
    else:
        words = _words(row, column, place, LAYOUT, ROWS, COLS, WHOLE)
        word = split(words, ROWS, COLS // 4)[WORD]
    return word * PARTS + i % PARTS


@triton.jit
def left_over(numel, place, SIZE: tl.constexpr, LAYOUT: tl.constexpr):
    """The tile of this program which aligned loads do not reach the end of, and the number of
    elements up to there; without such a tile ``stop`` and what aligned loads reach."""
    end, abreast, first, stop = place.end, place.abreast, place.first, place.stop
    cut, rest = stop, end
    if LAYOUT == FLAT:
        if end < numel:  # a division takes as long as some elements
            n = (end // SIZE).to(stop.dtype)
            if (n >= first) & (n < stop) & ((n - first) % abreast == 0):
                cut, rest = n, end - end + numel
    return cut, rest


@triton.jit
def piece_of(
    n, piece, place, rest, LAYOUT: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
    PARTS: tl.constexpr, FAR_ROWS: tl.constexpr, FAR_COLS: tl.constexpr,
):  # fmt: skip
    """Offsets of the elements of a piece of tile ``n``, and which of them are inside."""
    row, column = position(n, place, ROWS, COLS, LAYOUT)
    ACROSS: tl.constexpr = COLS * PARTS // FAR_COLS
    n = piece // (FAR_ROWS * FAR_COLS)
    i = row + n // ACROSS * FAR_ROWS + tl.arange(0, FAR_ROWS)[:, None]
    j = column * PARTS + n % ACROSS * FAR_COLS + tl.arange(0, FAR_COLS)[None, :]
    offset = i * (place.width * PARTS) + j
    if LAYOUT == FLAT:
        here = offset < rest
    else:
        here = (i < place.rows) & (j < place.columns * PARTS)
    return offset, here
