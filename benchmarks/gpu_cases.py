"""What the GPU benchmark runs: problems of the kernels, torch's own functions, and the check."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from bars import BACKWARD, FORWARD, GPU_FLOOR
from candidates import COMPILED, find_errors, formula, layout_of, make_unit
from measure import Record
from torch import Tensor, nn
from torch._inductor import config as inductor

import padenet
from padenet.core.forms import Spec
from padenet.torch import reference
from padenet.torch.kernels import gpu

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
CHECKED = DTYPES | {"float16": torch.float16}
SHAPES = {"large": (2**26,), "groups": (25216, 768), "channels": (256, 64, 56, 56)}
UNITS = {
    "large": ("PAU", "RPAU"),
    "groups": ("PAU, 8 groups",),
    "channels": (
        "PAU",
        "PAU, 64 groups",
        "PAU, channels_last",
        "PAU, 64 groups, channels_last",
    ),
}
SMALL = (64, 512)
KEY = 12345
Calls = dict[str, Callable[[], object]]


@dataclass(frozen=True)
class Case:
    """A unit on the shape that is timed, and on one to check that the same kernels run on."""

    unit: str
    timed: tuple[int, ...]
    checked: tuple[int, ...]


CASES = (
    Case("RPAU", SHAPES["large"], (200_007,)),
    Case("PAU, 64 groups, channels_last", SHAPES["channels"], (3, 64, 56, 56)),
    Case("PAU, 64 groups", SHAPES["channels"], (3, 64, 56, 56)),
    Case("PAU, 8 groups", SHAPES["groups"], (131, 768)),
    Case("PAU", SHAPES["large"], (200_007,)),
    Case("PAU", SMALL, SMALL),
)


class Problem(NamedTuple):
    """The arguments of the kernels."""

    dy: Tensor
    x: Tensor
    a: Tensor
    b: Tensor
    key: Tensor | None
    spec: Spec

    def forward(self) -> Tensor:
        return gpu.forward(*self[1:])

    def backward(self) -> tuple[Tensor, Tensor, Tensor]:
        return gpu.backward(*self)

    def run(self, work: str) -> Callable[[], object]:
        return self.forward if work == FORWARD else self.backward


def make_problem(name: str, x: Tensor, dy: Tensor) -> Problem:
    """Unit ``name`` on x and dy in the layout of that name."""
    unit = make_unit(name)
    x, dy = (t.contiguous(memory_format=layout_of(name)) for t in (x, dy))
    a, b = (p.detach().to(x.device) for p in (unit.a, unit.b))
    if isinstance(unit, padenet.RPAU):
        return Problem(dy, x, a, b, torch.tensor(KEY), unit.spec._replace(alpha=unit.alpha))
    return Problem(dy, x, a, b, None, unit.spec)


def kernel_jobs() -> list[tuple[Case, str, str]]:
    """Case, dtype and work of everything to be compiled, what takes longest first."""
    works = (BACKWARD, FORWARD)
    return [(case, dtype, work) for case in CASES for work in works for dtype in CHECKED]


def compile_kernel(case: Case, dtype: str, work: str) -> None:
    """Run it once on each shape, for Triton's cache on disk."""
    for shape in {case.checked, case.timed} if dtype in DTYPES else {case.checked}:
        x = torch.zeros(shape, dtype=CHECKED[dtype], device="cuda")
        make_problem(case.unit, x, x).run(work)()
    torch.cuda.synchronize()


def check(device: str = "cuda") -> Iterator[Record]:
    """Errors against the float64 reference in units of what is allowed, for each case and dtype."""
    for case in CASES:
        for name, dtype in CHECKED.items():
            generator = torch.Generator().manual_seed(0)
            x, dy = (
                torch.randn(case.checked, generator=generator).to(device, dtype) for _ in range(2)
            )
            p = make_problem(case.unit, x, dy)
            for c in (p.a, p.b):  # a group of its own coefficients, so that a mix-up shows
                c += torch.empty(c.shape).uniform_(0.01, 0.1, generator=generator).to(device)
            exact = [t.double() for t in p[:4]]
            right = (
                reference.forward(*exact[1:], p.key, p.spec),
                *reference.backward(*exact, p.key, p.spec),
            )
            errors = find_errors((p.forward(), *p.backward()), right)
            errors = {what: round(error, 4) for what, error in errors.items()}
            yield {"unit": case.unit, "shape": list(case.checked), "dtype": name} | errors


def make_calls(size: str, dtype: str, work: str, fused: Callable | None) -> Calls:
    """Calls by name, the floor first; ``fused`` is the compiled formula, timed in forward alone."""
    generator = torch.Generator("cuda").manual_seed(0)
    x, dy = (
        torch.randn(SHAPES[size], generator=generator, device="cuda").to(DTYPES[dtype])
        for _ in range(2)
    )
    out = torch.empty_like(x)
    if work == FORWARD:
        calls: Calls = {GPU_FLOOR: lambda: out.copy_(x)}
    else:
        calls = {GPU_FLOOR: lambda: torch.add(x, dy, out=out)}
    if size == "large":
        calls |= torch_calls(x, dy, work)
        if fused is not None and work == FORWARD:
            calls[COMPILED] = compiled_call(fused, x)
    for name in UNITS[size]:
        calls[name] = make_problem(name, x, dy).run(work)
    return calls


def torch_calls(x: Tensor, dy: Tensor, work: str) -> Calls:
    weight = torch.full((1,), 0.25, dtype=x.dtype, device=x.device, requires_grad=True)
    functions: dict[str, tuple[Callable[[Tensor], Tensor], list[Tensor]]] = {
        "relu": (F.relu, []),
        "gelu": (F.gelu, []),
        "prelu": (lambda x: F.prelu(x, weight), [weight]),
    }
    if work == FORWARD:
        return {name: no_grad_call(run, x) for name, (run, _) in functions.items()}
    leaf = x.detach().requires_grad_()
    return {
        name: gradient_call(run(leaf), [leaf, *parameters], dy)
        for name, (run, parameters) in functions.items()
    }


def gradient_call(y: Tensor, leaves: Sequence[Tensor], dy: Tensor) -> Callable[[], object]:
    return lambda: torch.autograd.grad(y, leaves, dy, retain_graph=True)


def no_grad_call(run: Callable[[Tensor], Tensor], x: Tensor) -> Callable[[], Tensor]:
    @torch.no_grad()
    def call() -> Tensor:
        return run(x)

    return call


def compiled_call(fused: Callable, x: Tensor) -> Callable[[], Tensor]:
    a, b = (p.detach().to(x.device) for p in make_unit("PAU").parameters())
    return no_grad_call(lambda x: fused(x, a, b), x)


def compile_formula() -> Callable:
    """The formula as torch.compile makes it, compiled for what is timed."""
    inductor.compile_threads = 1  # no processes that stay beside this one
    fused = torch.compile(formula, fullgraph=True, dynamic=False)
    for dtype in DTYPES.values():
        compiled_call(fused, torch.zeros(SHAPES["large"], dtype=dtype, device="cuda"))()
    torch.cuda.synchronize()
    return fused


def step_call(
    module: Callable[[Tensor], Tensor], x: Tensor, dy: Tensor, parameters: Sequence[Tensor]
) -> Callable[[], object]:
    """Forward and backward, with gradients of x and the parameters."""
    leaves = [x, *parameters]
    return lambda: torch.autograd.grad(module(x), leaves, dy)


def make_small_calls() -> Calls:
    x = torch.randn(SMALL, device="cuda", requires_grad=True)
    dy = torch.randn(SMALL, device="cuda")
    modules = {"relu": nn.ReLU(), "prelu": nn.PReLU(), "PAU": padenet.PAU()}
    return {n: step_call(m.cuda(), x, dy, list(m.parameters())) for n, m in modules.items()}


def make_chain_call(name: str) -> Callable[[], object]:
    """Forward and backward of batch norm, unit and convolution as one compiled graph."""
    torch.manual_seed(0)
    shape, layout = SHAPES["channels"], torch.channels_last
    channels = shape[1]
    unit = nn.ReLU() if name == "relu" else padenet.PAU()
    conv = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
    net = nn.Sequential(nn.BatchNorm2d(channels), unit, conv).cuda().to(memory_format=layout)
    compiled = torch.compile(net, fullgraph=True, dynamic=False)
    x, dy = (
        torch.randn(shape, device="cuda", dtype=torch.bfloat16).contiguous(memory_format=layout)
        for _ in range(2)
    )

    def run(x: Tensor) -> Tensor:
        with torch.autocast("cuda", torch.bfloat16):
            return compiled(x)

    return step_call(run, x.requires_grad_(), dy, list(net.parameters()))
