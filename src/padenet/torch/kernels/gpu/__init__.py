"""The Triton kernels (``sweeps.py``) on GPU tensors: asks for a plan (``plan.py``) and launches.

Contract
    x       dense in some order of its dims, read in memory order; anything else is copied first,
            and so is x of 16 bits that begins between two words of 32.
    dy      laid out as x, or one number expanded (all strides 0); anything else is copied.
    y, dx   laid out as x. Beside them only the sums of each program are allocated.
    a, b    any float dtype, computed in float32. float64 x is not taken.
    order   sums in fixed chunks added in fixed order: the same bits every time.

Nothing here waits for the device, so all of it can be captured in a CUDA graph.
"""

from contextlib import nullcontext
from functools import cache
from typing import Any

import torch
from torch import Tensor

from padenet.core.forms import Spec
from padenet.torch.kernels.gpu.plan import FLAT, LANES, Plan, plan_for, power_of_two
from padenet.torch.kernels.layout import is_one_number, memory_order, same_layout

OLDEST = 3, 5  # of Triton: before, it lacks some of what the kernels say
_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


@cache
def _find() -> tuple[Any, str]:
    """The kernels, or None and why."""
    try:
        import triton
    except ImportError as e:
        return None, f"Triton does not import ({e}). Install it with pip install triton."
    if tuple(map(int, triton.__version__.split(".")[:2])) < OLDEST:
        return None, (
            f"Triton {triton.__version__} is too old, the kernels need {OLDEST[0]}.{OLDEST[1]}. "
            "Install torch 2.9 or newer, which brings it."
        )
    from padenet.torch.kernels.gpu import ops, sweeps  # noqa: F401

    return sweeps, ""


def missing() -> str | None:
    """Why there are no kernels, or None if there are."""
    return _find()[1] or None


def status() -> str:
    reason = missing()
    if not torch.cuda.is_available():
        return "no GPU" if reason else "Triton, no GPU"
    if reason:
        return f"missing: {reason}"
    return f"Triton, {torch.cuda.get_device_name()}"


def refuses(x: Tensor, a: Tensor, b: Tensor) -> str | None:
    """Why the kernels cannot take these tensors, or None."""
    if x.is_cuda and x.dtype not in _DTYPES:
        return f"x has dtype {x.dtype}, the kernels take float32, bfloat16 and float16"
    return refuses_device(x.device)


def refuses_device(device: torch.device) -> str | None:
    """Why no kernel runs on it, or None."""
    if device.type != "cuda":
        return f"x is on {device}, the kernels need 'cuda'"
    if missing() or not _on_nvidia():
        return missing()
    index = torch.cuda.current_device() if device.index is None else device.index
    if (found := _capability(index)) >= (8, 0):
        return None
    return f"x is on a GPU of compute capability {found[0]}.{found[1]}, the kernels need 8.0"


def forward(x: Tensor, a: Tensor, b: Tensor, key: Tensor | None, spec: Spec) -> Tensor:
    order = memory_order(x)
    if order is None or _cuts_words(x):
        return forward(x.clone(), a, b, key, spec)
    y = torch.empty_like(x)
    plan = plan_for(
        "forward", x.device, x.dtype, x.shape, order, _groups(a), spec[2], key is not None
    )
    if plan.noise is None:
        return y.copy_(forward(x.contiguous(), a, b, key, spec))
    if all(plan.grid):
        a, b = a.contiguous(), b.contiguous()
        _launch(plan, (x, y, a, b), a, b, key, spec, plan.batch, plan.more)
    return y


def backward(
    dy: Tensor, x: Tensor, a: Tensor, b: Tensor, key: Tensor | None, spec: Spec
) -> tuple[Tensor, Tensor, Tensor]:
    order = memory_order(x)
    if order is None or _cuts_words(x):
        return backward(dy, x.clone(), a, b, key, spec)
    dx = torch.empty_like(x)
    groups = _groups(a)
    plan = plan_for("backward", x.device, x.dtype, x.shape, order, groups, spec[2], key is not None)
    if plan.noise is None:
        flat, da, db = backward(dy, x.contiguous(), a, b, key, spec)
        return dx.copy_(flat), da, db
    if not all(plan.grid):
        return dx, torch.zeros_like(a), torch.zeros_like(b)
    one_number = False
    if not same_layout(dy, x) or _cuts_words(dy):
        one_number = is_one_number(dy)
        if not one_number:
            dy = torch.empty_like(x).copy_(dy)
    a, b = a.contiguous(), b.contiguous()
    da, db = torch.empty_like(a), torch.empty_like(b)
    sums = da
    if not plan.alone:
        count = a.size(-1) + b.size(-1)
        sums = torch.empty(count * plan.slots, dtype=torch.float64, device=x.device)
    tensors = dy, x, dx, a, b, sums, da, db
    early, one_q = _early(x.get_device()), spec[1] == 1
    _launch(plan, tensors, a, b, key, spec, one_number, plan.alone, early, one_q)
    if not plan.alone:
        _launch_total(plan, groups, (sums, b, da, db), a, b, spec)
    return dx, da, db


def _cuts_words(x: Tensor) -> bool:
    """Whether words of 32 bits, as the kernels read them, begin within an element of x."""
    return x.data_ptr() & 3 != 0


def _groups(a: Tensor) -> int:
    return a.size(0) if a.dim() == 2 else 1


def _launch(
    plan: Plan,
    tensors: tuple[Tensor, ...],
    a: Tensor,
    b: Tensor,
    key: Tensor | None,
    spec: Spec,
    *flags: int,
) -> None:
    q, alpha, constant = spec.q, spec.alpha, spec.constant
    seed, seed_ptr = 0, None
    if key is not None:
        seed, seed_ptr = (int(key), None) if key.is_cpu else (0, key)
    pointers = [t.data_ptr() for t in tensors]
    bits = 0
    for p in pointers:
        bits |= p
    aligned = None if bits & 15 == 0 else tuple(p & 15 == 0 for p in pointers)
    variant = spec.form, a.size(-1), b.size(-1), a.dtype, aligned, seed_ptr is None, flags
    ready = plan.ready.get(variant)
    if ready is not None:
        return _run(plan.device, ready, pointers, seed_ptr, seed, q, alpha)
    m, n = a.size(-1) - 1, b.size(-1) - constant
    numbers = *plan.numbers, spec.flags.code, m, n, *plan.shape, _nvidia(plan.device.index), *flags
    arguments = *tensors, seed_ptr, seed, q, alpha, *numbers
    _compile(plan.kernel, plan, variant, plan.grid, arguments, numbers)


def _launch_total(
    plan: Plan, groups: int, tensors: tuple[Tensor, ...], a: Tensor, b: Tensor, spec: Spec
) -> None:
    variant = "total", spec.form, a.shape, b.shape, a.dtype
    ready = plan.ready.get(variant)
    if ready is not None:
        return _run(plan.device, ready, [t.data_ptr() for t in tensors])
    shape, layout = plan.shape, plan.shape.LAYOUT
    width = plan.numbers.width * shape.UNIT * shape.PARTS
    chunks, span, rows, units, columns = 1, 1, 1, 1, 2048 if layout == FLAT else 512
    if layout == LANES:
        chunks, span = plan.slots // width, plan.numbers.span
        columns = power_of_two(span)
        units = max(1, 4 // columns)  # four numbers are the least that memory hands over
        rows = max(1, 8192 // (units * columns))
    numbers = (
        plan.slots // groups, chunks, groups, span, spec.flags.code, a.size(-1) - 1,
        b.size(-1) - spec.constant, layout, rows, units, columns,
        _early(b.get_device()),
    )  # fmt: skip
    grid = -(-groups // units), a.size(-1) + b.size(-1), 1
    _compile("total", plan, variant, grid, (*tensors, *numbers), numbers)


def _compile(
    name: str,
    plan: Plan,
    variant: tuple[Any, ...],
    grid: tuple[int, int, int],
    arguments: tuple[Any, ...],
    numbers: tuple[Any, ...],
) -> None:
    """Launch through Triton, and keep what ``_run`` needs for the next time: asking Triton for it
    again takes longer than all the rest. The interpreter compiles nothing, so there it stays so."""
    options = {"num_warps": 8 if name == "total" else plan.threads // 32, "enable_fp_fusion": True}
    if name == "total":
        options |= {"launch_pdl": True} if _early(plan.device.index) else {}
    elif _on_nvidia():
        options["maxnreg"] = plan.registers
    with torch.cuda.device(plan.device) if _is_elsewhere(plan.device) else nullcontext():
        kernel = getattr(_find()[0], name)[grid](*arguments, **options)
    if kernel is not None:
        plan.ready[variant] = kernel.run, grid, kernel.function, kernel.packed_metadata, numbers


def _run(device: torch.device, ready: tuple[Any, ...], pointers: list[int], *rest: Any) -> None:
    """Launch a compiled kernel. It takes addresses in place of tensors, and no hooks."""
    if _is_elsewhere(device):
        with torch.cuda.device(device):
            return _run(device, ready, pointers, *rest)
    run, grid, function, metadata, numbers = ready
    stream = torch._C._cuda_getCurrentRawStream(device.index)
    run(*grid, stream, function, metadata, None, None, None, *pointers, *rest, *numbers)


def _is_elsewhere(device: torch.device) -> bool:
    """Kernels go to the current stream of the current device, which may not be that one."""
    return _several_gpus() and device.index != torch.cuda.current_device()


@cache
def _several_gpus() -> bool:
    return torch.cuda.device_count() > 1


@cache
def _on_nvidia() -> bool:
    return torch.cuda.is_available() and torch.version.hip is None


@cache
def _nvidia(device: int) -> int:
    """What the kernels call NVIDIA: 2 from compute capability 8.6 on, 1 before, 0 elsewhere."""
    return 1 + (_capability(device) >= (8, 6)) if _on_nvidia() else 0


@cache
def _early(device: int) -> bool:
    """Whether ``total`` is launched while ``backward`` still runs, which spares 2 us. This takes a
    GPU from Hopper on."""
    return _on_nvidia() and _capability(device) >= (9, 0)


@cache
def _capability(device: int) -> tuple[int, int]:
    return torch.cuda.get_device_capability(device)
