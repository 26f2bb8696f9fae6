"""What is compared: units and calls by name, and the check that the units are right."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor

from padenet import PAU, RPAU
from padenet.core import native
from padenet.core.forms import FORMS, Spec
from padenet.core.starting.starts import find_start
from padenet.torch import functional, reference
from padenet.torch.kernels import plain
from padenet.torch.noise import draw_key

FLOOR = "floor: copy (+ add)"
COMPILED = "torch.compile of the formula"
BARE = "floor: the kernels in a bare autograd.Function"
PLAIN = "PAU, plain path"
UNITS: dict[str, tuple[type[PAU], dict]] = {
    "PAU": (PAU, {}),
    "PAU, 8 groups": (PAU, {"groups": 8}),
    "PAU, 64 groups": (PAU, {"groups": 64}),
    "PAU, channels_last": (PAU, {}),
    "PAU, 8 groups, channels_last": (PAU, {"groups": 8}),
    "PAU, 64 groups, channels_last": (PAU, {"groups": 64}),
    "RPAU": (RPAU, {}),
    "PAU, abs_terms": (PAU, {"form": "abs_terms"}),
    "PAU, free": (PAU, {"form": "free"}),
    "PAU, offset": (PAU, {"form": "offset"}),
    "PAU, degrees (7, 6)": (PAU, {"degrees": (7, 6)}),
    PLAIN: (PAU, {}),
}


@dataclass(frozen=True)
class Candidate:
    run: Callable[[Tensor], Tensor]
    parameters: Sequence[Tensor] = ()
    layout: torch.memory_format = torch.contiguous_format


def make_unit(name: str) -> PAU:
    """A unit that starts as "lrelu" in its own form and degrees; without poles for "free"."""
    kind, options = UNITS[name]
    start = find_start("lrelu")
    a, b = list(start.a), list(start.b)
    if options.get("form") == "offset":
        b = [0.0, *b]
    m, n = options.get("degrees", (5, 4))
    a += [1e-3] * (m + 1 - len(a))
    b += [1e-3] * (n + (options.get("form") == "offset") - len(b))
    return kind((a, b), **options)


def make_call(name: str, unit: PAU) -> Callable[[Tensor], Tensor]:
    """The unit, or for ``PLAIN`` the unit as it runs where there is no kernel."""
    if name != PLAIN:
        return unit

    def run(x: Tensor) -> Tensor:
        with patch.object(functional, "pick", lambda x, a, b: plain):
            return unit(x)

    return run


def layout_of(name: str) -> torch.memory_format:
    return torch.channels_last if "channels_last" in name else torch.contiguous_format


def formula(x: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """The safe form by Horner's rule, as one would write it; ``b[0]`` is b_1."""
    P, A = a[-1], b[-1]
    for c in reversed(a[:-1].unbind()):
        P = P * x + c
    for c in reversed(b[:-1].unbind()):
        A = A * x + c
    return P / (1 + (A * x).abs())


class _Bare(torch.autograd.Function):
    """The native kernels on contiguous float32 without a check: the least that Python takes."""

    @staticmethod
    def forward(ctx, x, a, b):
        ctx.save_for_backward(x, a, b)
        y = torch.empty_like(x)
        native._entry("padenet_forward")(_pack(x, y, a, b))
        return y

    @staticmethod
    def backward(ctx, dy):
        x, a, b = ctx.saved_tensors
        dx, da, db = torch.empty_like(x), torch.empty_like(a), torch.empty_like(b)
        addresses = dy.data_ptr(), da.data_ptr(), db.data_ptr()
        native._entry("padenet_backward")(_pack(x, dx, a, b, *addresses))
        return dx, da, db


def _pack(x: Tensor, out: Tensor, a: Tensor, b: Tensor, dy: int = 0, da: int = 0, db: int = 0):
    """``struct Problem`` of native/problem.h for one safe unit of degrees (5, 4), one thread."""
    tensors = x.data_ptr(), dy, out.data_ptr(), a.data_ptr(), b.data_ptr(), da, db
    code = FORMS["safe"].code
    return native._PROBLEM.pack(
        *tensors, 1, 1, x.numel(), 1, 0, 0, code, 5, 4, 1, False, False, 0, 0, 1.0, 0.0
    )


def make_candidates(
    dtype: torch.dtype, *, compiled: bool, bare: bool = False
) -> dict[str, Candidate]:
    """All but the floor, whose work is no function of x alone."""
    weight = torch.full((1,), 0.25, dtype=dtype, requires_grad=True)
    a, b = (p.detach().clone().requires_grad_() for p in make_unit("PAU").parameters())
    found = {
        "relu": Candidate(F.relu),
        "gelu": Candidate(F.gelu),
        "silu": Candidate(F.silu),
        "prelu": Candidate(lambda x: F.prelu(x, weight), [weight]),
        "eager formula": Candidate(lambda x: formula(x, a, b), [a, b]),
    }
    if compiled:
        torch.compiler.reset()
        fused = torch.compile(formula, fullgraph=True, dynamic=False)
        found[COMPILED] = Candidate(lambda x: fused(x, a, b), [a, b])
    if bare and native.missing() is None:
        found[BARE] = Candidate(lambda x: _Bare.apply(x, a, b), [a, b])
    for name in UNITS:
        unit = make_unit(name)
        found[name] = Candidate(make_call(name, unit), list(unit.parameters()), layout_of(name))
    return found


def train_step(candidate: Candidate, x: Tensor, dy: Tensor) -> Callable[[], None]:
    """Forward and backward with gradients of x and the parameters, which are freed again."""
    run, leaves = candidate.run, [x, *candidate.parameters]

    def step() -> None:
        run(x).backward(dy)
        for leaf in leaves:
            leaf.grad = None

    return step


def make_inputs(
    shape: Sequence[int], dtype: torch.dtype
) -> dict[torch.memory_format, tuple[Tensor, Tensor]]:
    """(x, dy) by layout, the same numbers in each."""
    generator = torch.Generator().manual_seed(0)
    x, dy = (torch.randn(*shape, generator=generator).to(dtype) for _ in range(2))
    pairs = {torch.contiguous_format: (x.requires_grad_(), dy)}
    if len(shape) == 4:
        last = [t.detach().to(memory_format=torch.channels_last) for t in (x, dy)]
        pairs[torch.channels_last] = (last[0].requires_grad_(), last[1])
    return pairs


def check(shape: Sequence[int], dtype: torch.dtype) -> list[str]:
    """What differs from the float64 reference, by far more than rounding explains."""
    inputs = make_inputs(shape, dtype)
    wrong = []
    for name in UNITS:
        unit = make_unit(name)
        x, dy = inputs[layout_of(name)]
        with torch.no_grad():  # a group of its own coefficients, so that a mix-up shows
            for p in unit.parameters():
                p.add_(torch.empty_like(p).uniform_(0.01, 0.1))

        torch.manual_seed(0)
        key = draw_key(x.device) if isinstance(unit, RPAU) else None
        spec = Spec(unit.form, unit.q, unit.channel_dim, getattr(unit, "alpha", 0.0))
        exact = (x.detach().double(), unit.a.detach().double(), unit.b.detach().double())
        right = (
            reference.forward(*exact, key, spec),
            *reference.backward(dy.double(), *exact, key, spec),
        )

        torch.manual_seed(0)
        y = make_call(name, unit)(x)
        y.backward(dy)
        got = (y.detach(), x.grad, unit.a.grad, unit.b.grad)
        x.grad = None
        for what, error in find_errors(got, right).items():
            if not error <= 1:
                wrong.append(f"{name}, {dtype}: {what} is off by {error:.1f} times the bound")
    return wrong


def find_errors(got: Sequence[Tensor], right: Sequence[Tensor]) -> dict[str, float]:
    """The largest errors of y, dx, da and db, in units of what is allowed.

    That is 1e-5 (y, dx) or 1e-4 (da, db: sums) of the largest value, on top of the rounding of each
    value to its dtype.
    """
    errors = {}
    bounds = {"y": 1e-5, "dx": 1e-5, "da": 1e-4, "db": 1e-4}
    for (what, bound), g, r in zip(bounds.items(), got, right, strict=True):
        allowed = bound * r.abs().max() + torch.finfo(g.dtype).eps * r.abs()
        errors[what] = ((g.double() - r).abs() / allowed).max().item()
    return errors
