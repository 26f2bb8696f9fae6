"""How a tensor is cut into tiles and programs. What these are: ``sweeps.py``."""

import math
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any, NamedTuple

import torch

FLAT, RUNS, LANES = range(3)
_THREADS = 128
_IN_A_ROW = 512  # elements that a thread sums one after the other, at most
_BIG = 2**31 - 2**12  # elements from which offsets, up to a tile beyond the last, take 64 bits
_WIDTH = 2**12  # words from a row to the next, up to which a power of two is compiled in
_MOST_ABREAST = 2**16 - 1  # programs along the second axis of a grid
_SMALL = 2**15  # elements that one program sums alone: a second kernel is more to launch


class Numbers(NamedTuple):
    """What a kernel is told when it runs, in the order of its arguments."""

    rows: int
    steps: int
    skew: int
    abreast: int
    down: int
    over: int
    numel: int
    width: int
    span: int
    middle: int
    minor: int


class Shape(NamedTuple):
    """What a kernel is compiled for, by the names of its arguments."""

    NOISE: int
    LAYOUT: int
    ROWS: int
    COLS: int
    PARTS: int
    UNIT: int
    WIDTH: int
    WHOLE: bool
    FAR_ROWS: int
    FAR_COLS: int
    BIG: bool


@dataclass(eq=False, slots=True)
class Plan:
    """How a tensor is cut into programs, and the kernels that have run so."""

    kernel: str
    device: torch.device
    grid: tuple[int, int, int]  # units or blocks of columns, programs abreast, stretches
    threads: int
    registers: int
    slots: int  # numbers in which one sum of all units is left
    alone: bool  # one program sums all of a unit
    numbers: Numbers
    shape: Shape
    noise: int | None  # NOISE, or None: not in this order of dims
    batch: int  # tiles that forward loads together
    more: bool  # whether a program of forward has more than these
    ready: dict[tuple[Any, ...], Any] = field(default_factory=dict)


@lru_cache(maxsize=4096)
def plan_for(
    kernel: str,
    device: torch.device,
    dtype: torch.dtype,
    shape: torch.Size,
    order: tuple[int, ...],
    groups: int,
    channel_dim: int,
    noise: bool,
) -> Plan:
    numel = math.prod(shape)
    kind, middle, minor = _noise_order(shape, order) if noise else (0, 1, 1)
    parts = 4 // dtype.itemsize  # elements in a word
    threads, unit, across, skew = _THREADS, 1, 1, 0
    alone = kernel == "backward" and groups == 1 and numel <= _SMALL
    if groups == 1 or not numel:
        threads = 4 * threads if alone else threads
        layout, tile_rows, columns = FLAT, 1, 4 * threads
        width = span = columns
        rows = -(-numel // (columns * parts))
        whole = kernel == "backward" and not alone and numel // 16 * 16 >= columns * parts
        tiles, units = rows, 1  # of a unit; units, or blocks of columns
    else:
        c = channel_dim % len(shape)
        after = order[order.index(c) + 1 :] if order and c in order else range(c + 1, len(shape))
        span = shape[c] // groups * math.prod(shape[d] for d in after)
        parts = parts if span % parts == 0 else 1
        rows = numel // (groups * span)
        columns = _columns(span // parts, rows, 4 * threads)
        if columns:
            layout, units = RUNS, groups
        else:
            layout = LANES
            parts = 4 // dtype.itemsize if groups * span % 2 == 0 else 1
            columns = _lanes(groups * span // parts, rows, threads)
            units = -(-groups * span // (parts * columns))
        tile_rows = 4 * threads // columns
        width, span = groups * span // parts, span // parts if layout == RUNS else span
        if layout == RUNS:
            across = -(-span // columns)
            unit = 4 if span % 4 == 0 else 1
        tiles = -(-rows // tile_rows) * across
        whole = rows >= tile_rows and (span if layout == RUNS else width) % columns == 0
    registers = _registers(kernel, layout, parts, whole, noise)
    if alone:
        stretches, steps, abreast, batch = 1, tiles, 1, 1
    elif kernel == "forward" and not noise:
        steps, batch = _forward_tiles(layout, parts)
        stretches = 1 if layout == FLAT else max(1, -(-tiles // (steps * _MOST_ABREAST)))
        abreast = -(-tiles // (steps * stretches))
    else:  # a wave of programs on a stretch of its own, then the next
        at_once, batch = max(1, _at_once(registers, device) // units), 1
        abreast = max(1, min(at_once, tiles))
        length = -(-tiles // abreast)
        steps, early = _waves(length, _IN_A_ROW // (4 * parts), layout, parts, noise)
        stretches = -(-(length + early) // steps)
        skew = (early << 16) // abreast
    chunks = stretches * abreast
    fixed = layout == FLAT or (layout == LANES and width == power_of_two(width) <= _WIDTH)
    far_columns = columns * parts if layout == LANES else min(columns * parts, threads)
    return Plan(
        kernel,
        device,
        (abreast, 1, stretches) if layout == FLAT else (units, abreast, stretches),
        threads,
        registers,
        chunks * (width * parts if layout == LANES else units),
        alone or (kernel == "backward" and chunks == 1 and layout == RUNS),
        Numbers(
            rows, steps, skew, abreast, abreast // across, abreast % across, numel,
            width // unit, span // unit, middle, minor,
        ),
        Shape(
            kind or 0, layout, tile_rows, columns, parts, unit, width if fixed else 0, whole,
            max(1, threads // far_columns), far_columns, numel >= _BIG,
        ),
        kind,
        batch,
        steps > batch,
    )  # fmt: skip


def _forward_tiles(layout: int, parts: int) -> tuple[int, int]:
    """Tiles of a program in forward, and how many of them it loads together: the fastest of those
    tried on an H200. In LANES every thread first loads coefficients of its own, in 16 bits two
    sets: there a program has more."""
    if layout == LANES:
        return (16, 2) if parts == 2 else (4, 4)
    return (2, 2) if parts == 1 and layout == FLAT else (4, 4)


def _waves(length: int, most: int, layout: int, parts: int, noise: bool) -> tuple[int, int]:
    """Tiles of a program where ``length`` of them come to each that runs at once, ``most`` at most;
    and how many fewer the first programs of the first wave have, whose rest falls to the last wave.

    Programs that end together leave a multiprocessor without work, from the last load of one to the
    first of the next. So they end one after the other, and what is left then goes wherever there is
    room first. Noise is arithmetic alone: there a fifth is left for the second wave, and all of the
    first end together. Short programs are not worth a second wave.
    """
    if length <= most // 2:
        return max(1, length), 0
    if noise:
        return min(most, length - length // 5), 0
    steps = min(most, length - length // 25)
    return steps, steps // (2 if layout == LANES or (layout == FLAT and parts == 1) else 4)


def _registers(kernel: str, layout: int, parts: int, whole: bool, noise: bool) -> int:
    """The most that a thread may have, so that enough programs run at once. The first sweep gets by
    with them; that over far elements would take more."""
    lanes = layout == LANES
    if noise:
        return 72 if not lanes else 96 if kernel == "forward" else 80 if parts == 2 else 72
    if kernel == "forward":
        return 64 if lanes else 40 if parts == 2 or layout == FLAT else 32
    if parts == 1:
        return {FLAT: 64, RUNS: 72, LANES: 80}[layout]
    return 72 if layout == FLAT else (88 if lanes else 80) - (8 if whole else 0)


@cache
def _at_once(registers: int, device: torch.device) -> int:
    """How many programs run at once: of more, the last would run while most of the GPU rests."""
    if device.type != "cuda":  # the interpreter
        return 4
    cores = torch.cuda.get_device_properties(device).multi_processor_count
    return cores * (2**16 // (registers * _THREADS))


def _lanes(width: int, rows: int, most: int) -> int:
    """The tile for rows of that many words: the widest that leaves nothing over, or else the widest
    that wastes an eighth at most, or else the one that wastes least. Narrower ones than 16 would
    cut the memory into pieces that are too small, those of more rows than there are waste them."""
    least = max(16, power_of_two(-(-4 * _THREADS // rows)))
    if width <= 16 or least >= most:
        return min(power_of_two(width), most)
    if (even := min(width & -width, most)) >= max(32, least):
        return even
    sizes = [c for c in (128, 64, 32, 16) if least <= c <= most]
    wasted = {columns: -width % columns / width for columns in sizes}
    return next((c for c in sizes if wasted[c] <= 1 / 8), min(sizes, key=wasted.__getitem__))


def _columns(span: int, rows: int, most: int) -> int:
    """The widest tile that leaves nothing over at the end of a span, if there are rows enough for
    it, or else wastes little of itself; 0 if there is none."""
    even = min(span & -span, most)
    if even >= 32 and most // even <= rows:
        return even
    for waste in (16, 8):
        columns = most
        while columns >= 16:
            if columns * -(-span // columns) * (waste - 1) <= span * waste:
                return columns
            columns //= 2
    return 0


def power_of_two(n: int) -> int:
    return 1 << (n - 1).bit_length()


def _noise_order(shape: torch.Size, order: tuple[int, ...]) -> tuple[int | None, int, int]:
    """NOISE, middle and minor of the kernels for dims that lie in memory in ``order``."""
    strides = torch.empty(shape, device="meta").stride()
    parts: list[tuple[int, int]] = []  # size and stride by shape of what lies together either way
    for d in order:
        if parts and parts[-1][1] == strides[d] * shape[d]:
            parts[-1] = parts[-1][0] * shape[d], strides[d]
        else:
            parts.append((shape[d], strides[d]))
    if len(parts) <= 1:
        return 1, 1, 1
    (middle, stride_middle), (minor, stride_minor) = parts[-2:]
    swapped = stride_middle == 1 and stride_minor == middle
    if swapped and (len(parts) == 2 or (len(parts) == 3 and parts[0][1] == middle * minor)):
        return 2, middle, minor
    return None, 1, 1
