"""The Triton kernels (``gpu_code.py``) on GPU tensors: lays out the problem and launches.

Contract
    x       dense in some order of its dims, read in memory order; anything else is copied first.
    dy      laid out as x, or one number expanded (all strides 0); anything else is copied.
    y, dx   laid out as x. Beside them 80 bytes for every 16 thousand elements are allocated.
    a, b    any float dtype, computed in float32. float64 x is not taken.
    order   sums in fixed chunks added in fixed order: the same bits every time.

Nothing here waits for the device, so all of it can be captured in a CUDA graph.
"""

import math
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any

import torch
from torch import Tensor

from padenet.kernels.native import _is_one_number, _memory_order, _same_layout
from padenet.spec import FORMS, Spec

_DTYPES = (torch.float32, torch.bfloat16, torch.float16)
_FORMS = {form: i for i, form in enumerate(FORMS)}
_FLAT, _RUNS, _LANES = range(3)
_THREADS = 128
_REGISTERS = {"forward": 32, "backward": 64}  # a thread, so that enough programs run at once
_SMALL = 2**16  # elements that one program sums alone


@cache
def _find() -> tuple[Any, str]:
    """The kernels, or None and why."""
    try:
        from padenet.kernels import gpu_code
    except ImportError as e:
        return None, f"Triton does not import ({e}). Install it with pip install triton."
    return gpu_code, ""


def missing() -> str | None:
    """Why there are no kernels, or None if there are."""
    return _find()[1] or None


def status() -> str:
    if reason := missing():
        return f"missing: {reason}"
    if not torch.cuda.is_available():
        return "Triton, no GPU"
    return f"Triton, {torch.cuda.get_device_name()}"


def refuses(x: Tensor, a: Tensor, b: Tensor) -> str | None:
    """Why the kernels cannot take these tensors, or None."""
    if not x.is_cuda:
        return f"x is on {x.device}, the kernels need 'cuda'"
    if x.dtype not in _DTYPES:
        return f"x has dtype {x.dtype}, the kernels take float32, bfloat16 and float16"
    return missing()


def forward(x: Tensor, a: Tensor, b: Tensor, key: Tensor | None, spec: Spec) -> Tensor:
    order = _memory_order(x)
    if order is None:
        return forward(x.clone(), a, b, key, spec)
    y = torch.empty_like(x)
    plan = _plan("forward", x.device, x.dtype, x.shape, order, _groups(a), spec[2], key is not None)
    if plan.noise is None:
        return y.copy_(forward(x.contiguous(), a, b, key, spec))
    if plan.programs:
        _launch(plan, (x, y, a.contiguous(), b.contiguous()), a, b, key, spec)
    return y


def backward(
    dy: Tensor, x: Tensor, a: Tensor, b: Tensor, key: Tensor | None, spec: Spec
) -> tuple[Tensor, Tensor, Tensor]:
    order = _memory_order(x)
    if order is None:
        return backward(dy, x.clone(), a, b, key, spec)
    dx = torch.empty_like(x)
    groups = _groups(a)
    plan = _plan("backward", x.device, x.dtype, x.shape, order, groups, spec[2], key is not None)
    if plan.noise is None:
        flat, da, db = backward(dy, x.contiguous(), a, b, key, spec)
        return dx.copy_(flat), da, db
    if not plan.programs:
        return dx, torch.zeros_like(a), torch.zeros_like(b)
    one_number = False
    if not _same_layout(dy, x):
        one_number = _is_one_number(dy)
        if not one_number:
            dy = torch.empty_like(x).copy_(dy)
    a, b = a.contiguous(), b.contiguous()
    da, db = torch.empty_like(a), torch.empty_like(b)
    sums = da
    if not plan.alone:
        count = a.size(-1) + b.size(-1)
        sums = torch.empty(count * plan.slots, dtype=torch.float64, device=x.device)
    _launch(plan, (dy, x, dx, a, b, sums, da, db), a, b, key, spec, one_number, plan.alone)
    if not plan.alone:
        _launch_total(plan, groups, (sums, b, da, db), a, b, spec)
    return dx, da, db


@dataclass(eq=False, slots=True)
class _Plan:
    """How a tensor is cut into programs, and the kernels that have run so."""

    kernel: str
    device: torch.device
    programs: int
    threads: int
    slots: int  # numbers in which one sum of all units is left
    alone: bool  # one program sums all of a unit
    numbers: tuple[int, ...]  # rows, steps, numel, width, span, middle, minor
    shape: tuple[int, ...]  # NOISE, LAYOUT, ROWS, COLS, PARTS, UNIT, FAR_ROWS, FAR_COLS, BIG
    noise: int | None  # NOISE, or None: not in this order of dims
    ready: dict[tuple[Any, ...], Any] = field(default_factory=dict)


@lru_cache(maxsize=4096)
def _plan(
    kernel: str,
    device: torch.device,
    dtype: torch.dtype,
    shape: torch.Size,
    order: tuple[int, ...],
    groups: int,
    channel_dim: int,
    noise: bool,
) -> _Plan:
    numel = math.prod(shape)
    kind, middle, minor = _noise_order(shape, order) if noise else (0, 1, 1)
    parts = 4 // dtype.itemsize  # elements in a word
    threads, unit = _THREADS, 1
    alone = kernel == "backward" and groups == 1 and numel <= _SMALL
    if groups == 1 or not numel:
        threads = 4 * threads if alone else threads
        layout, tile_rows, columns = _FLAT, 1, 4 * threads
        width = span = columns
        rows = -(-numel // (columns * parts))
        tiles, units = rows, 1  # of a unit; units, or blocks of columns
    else:
        c = channel_dim % len(shape)
        after = order[order.index(c) + 1 :] if order and c in order else range(c + 1, len(shape))
        span = shape[c] // groups * math.prod(shape[d] for d in after)
        parts = parts if span % parts == 0 else 1
        columns = _columns(span // parts, 4 * threads)
        if columns:
            layout, units = _RUNS, groups
        else:
            layout = _LANES
            parts = 4 // dtype.itemsize if groups * span % 2 == 0 else 1
            columns = min(_power_of_two(groups * span // parts), threads)
            units = -(-groups * span // (parts * columns))
        tile_rows = 4 * threads // columns
        width, span = groups * span // parts, span // parts if layout == _RUNS else span
        rows = numel // (width * parts)
        tiles = -(-rows // tile_rows)
        if layout == _RUNS:
            tiles *= -(-span // columns)
            unit = 4 if span % 4 == 0 else 1
    steps = tiles if alone else max(1, -(-tiles * units // _programs(kernel, device)))
    chunks = -(-tiles // steps) if numel else 0
    far_columns = columns * parts if layout == _LANES else min(columns * parts, threads)
    extent = (steps // max(1, -(-span // columns)) + 2) * tile_rows * width * parts
    return _Plan(
        kernel,
        device,
        chunks * units,
        threads,
        chunks * (width * parts if layout == _LANES else units),
        alone or (kernel == "backward" and chunks == 1 and layout == _RUNS),
        (rows, steps, numel, width // unit, span // unit, middle, minor),
        (
            kind or 0, layout, tile_rows, columns, parts, unit,
            max(1, threads // far_columns), far_columns, extent >= 2**31,
        ),
        kind,
    )  # fmt: skip


@cache
def _programs(kernel: str, device: torch.device) -> int:
    """How many programs run at once: of more, the last would run while most of the GPU rests."""
    if device.type != "cuda":  # the interpreter
        return 4
    cores = torch.cuda.get_device_properties(device).multi_processor_count
    return cores * (2**16 // (_REGISTERS[kernel] * _THREADS))


def _columns(span: int, most: int) -> int:
    """The widest tile that wastes little of itself at the end of a span, 0 if there is none."""
    for waste in (16, 8):
        columns = most
        while columns >= 16:
            if columns * -(-span // columns) * (waste - 1) <= span * waste:
                return columns
            columns //= 2
    return 0


def _power_of_two(n: int) -> int:
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


def _groups(a: Tensor) -> int:
    return a.size(0) if a.dim() == 2 else 1


def _launch(
    plan: _Plan,
    tensors: tuple[Tensor, ...],
    a: Tensor,
    b: Tensor,
    key: Tensor | None,
    spec: Spec,
    *flags: bool,
) -> None:
    form, q, _, alpha = spec
    seed, seed_ptr = 0, None
    if key is not None:
        seed, seed_ptr = (int(key), None) if key.is_cpu else (0, key)
    unaligned = 0
    for t in tensors:
        unaligned = 2 * unaligned + (t.data_ptr() % 16 != 0)
    m, n = a.size(-1) - 1, b.size(-1) - (form == "offset")
    variant = form, m, n, a.dtype, unaligned, seed_ptr is None, flags
    found = plan.ready.get(variant)
    constants = found[1] if found else (_FORMS[form], m, n, *plan.shape, _on_nvidia(), *flags)
    args = (*tensors, seed_ptr, seed, q, alpha, *plan.numbers, *constants)
    kernel = _run(found and found[0], plan.kernel, plan, (plan.programs, 1, 1), args)
    if not found:
        plan.ready[variant] = kernel, constants


def _launch_total(
    plan: _Plan, groups: int, tensors: tuple[Tensor, ...], a: Tensor, b: Tensor, spec: Spec
) -> None:
    variant = "total", spec.form, a.shape, b.shape, a.dtype
    found = plan.ready.get(variant)
    if found:
        constants = found[1]
    else:
        layout, parts, unit = plan.shape[1], plan.shape[4], plan.shape[5]
        width, span = plan.numbers[3] * unit * parts, plan.numbers[4]
        columns = min(_power_of_two(span), 1024) if layout == _LANES else 1024
        constant = spec.form == "offset"
        constants = (
            plan.slots // groups, plan.slots // width if layout == _LANES else 1, width, span,
            _FORMS[spec.form], a.size(-1) - 1, b.size(-1) - constant, layout,
            1024 // columns, columns,
        )  # fmt: skip
    grid = groups, a.size(-1) + b.size(-1), 1
    kernel = _run(found and found[0], "total", plan, grid, (*tensors, *constants))
    if not found:
        plan.ready[variant] = kernel, constants


def _run(
    kernel: Any, name: str, plan: _Plan, grid: tuple[int, int, int], args: tuple[Any, ...]
) -> Any:
    """Launch on the current stream of the device, and return the compiled kernel for the next time:
    asking Triton for it again takes longer than all the rest."""
    device = plan.device
    if device.type == "cuda" and device.index != torch.cuda.current_device():
        with torch.cuda.device(device):
            return _run(kernel, name, plan, grid, args)
    if kernel is not None:
        kernel(*args)
        return kernel
    options = {"num_warps": plan.threads // 32, "enable_fp_fusion": True}
    if _on_nvidia() and name in _REGISTERS:
        options["maxnreg"] = _REGISTERS[name]  # the far sweep alone would take more
    compiled = getattr(_find()[0], name)[grid](*args, **options)
    return None if compiled is None else compiled[grid]  # the interpreter compiles nothing


@cache
def _on_nvidia() -> bool:
    return torch.cuda.is_available() and torch.version.hip is None
