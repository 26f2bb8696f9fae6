"""Units of one kind, whose steps are held together, and what was done to them."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from padenet.torch import trust
from padenet.torch.kernels import gpu, native_steps
from padenet.torch.nn import PAU, starting_coefficients


@dataclass(frozen=True)
class Held:
    """What ``stabilize`` did: in ``held`` of ``steps`` it shortened something, first in step
    ``since`` (counted from 1; None: never).

    ``name`` is that of a unit whose steps were meant, with groups of the group which was held most
    often; or of an optimiser, whose gradients were.
    """

    name: str
    steps: int
    held: int
    since: int | None

    def __str__(self) -> str:
        share = 100 * self.held / max(1, self.steps)
        first = f", the first time in step {self.since}" if self.since else ""
        return f"{self.name}: {self.held} of {self.steps} steps shortened ({share:.1f} %){first}"


class Bank:
    """Units of one form, degrees, device and dtype, a row for each unit or group.

    Units that share their coefficients share their rows.
    """

    def __init__(self, units: dict[str, PAU], most: float):
        self.units, self.most = units, most
        self.distinct = list({id(u.a): u for u in units.values()}.values())
        first = self.distinct[0]
        self.degrees, self.spec, device = first.degrees, first.spec, first.a.device
        self.grid = trust.make_grid(self.degrees, self.spec, device)
        self.sizes = [unit.groups for unit in self.distinct]
        rows = sum(self.sizes)
        counts = self.degrees[0] + 1, self.degrees[1] + self.spec.constant
        zeros = partial(torch.zeros, dtype=first.a.dtype, device=device)
        self.old, self.new = ([zeros(rows, c) for c in counts] for _ in range(2))
        self.old_views, self.new_views = self._views(self.old), self._views(self.new)
        self.least = torch.cat([_least(unit) for unit in self.distinct]).to(device)
        self.counts = torch.zeros(3, rows, dtype=torch.int64, device=device)
        self.steps, self.held, self.since = self.counts
        self.sharded = is_sharded(first.a)
        self.parameters: list[Tensor] = [p for unit in self.distinct for p in (unit.a, unit.b)]
        self.kernel: Any = None if self.sharded else _kernel_for(first)
        self.places: list[tuple[Any, ...]] = []
        self.rows: Any = None

    def _views(self, tables: list[Tensor]) -> list[Tensor]:
        """Of each unit, in the shape of its parameters."""
        rows = [table.split(self.sizes) for table in tables]
        pairs = zip(self.distinct, *rows, strict=True)
        return [
            part.view(p.shape)
            for u, *parts in pairs
            for part, p in zip(parts, (u.a, u.b), strict=True)
        ]

    def remember(self) -> None:
        if self._locate():
            self.rows.remember()
        else:
            torch._foreach_copy_(self.old_views, self._whole())

    def hold(self) -> None:
        if self._locate():
            self.rows.hold()
            return
        torch._foreach_copy_(self.new_views, self._whole())
        old, new = ((t[0].double(), t[1].double()) for t in (self.old, self.new))
        a, b, cut = trust.hold(old, new, self.least, self.grid, self.spec, self.most)
        for table, values in zip(self.new, (a, b), strict=True):
            table.copy_(values)
        self._count(cut)
        if self.sharded:
            _write_shards(self.parameters, self.new_views)
        else:
            torch._foreach_copy_(self.parameters, self.new_views)

    def part(self, most: float) -> float:
        """How much of the step all parameters may take together, those of other layers too."""
        torch._foreach_copy_(self.new_views, self._whole())
        old = [t.double() for t in self.old]
        step = [new.double() - o for new, o in zip(self.new, old, strict=True)]
        parts = trust.shorten((old[0], old[1]), (step[0], step[1]), self.grid, self.spec, most)
        self._count(parts < 1)
        return float(parts.min())

    def _locate(self) -> bool:
        """Whether a kernel holds the units; it knows where they lie.

        Asked before and after each step: optimisers and models may put other memory, or another
        view of it, under a parameter at any time.
        """
        if self.kernel is None:
            return False
        places = [
            (p.data_ptr(), p.numel(), p.dtype, p.get_device(), p.is_contiguous())
            for p in self.parameters
        ]
        if places != self.places:
            self.places, self.rows = places, self._make_rows()
        return self.rows is not None

    def _make_rows(self) -> Any:
        """The kernel with the addresses of the rows; None where they are not what it takes."""
        if not all(map(_is_plain, self.parameters, self.old_views)):
            return None
        spans = sorted(
            (p.data_ptr(), p.data_ptr() + p.nbytes) for p in self.parameters if p.numel()
        )
        if any(end > start for (_, end), (start, _) in pairwise(spans)):
            return None  # what two rows share would be shortened twice
        columns = []
        for i, table in enumerate(self.old):
            pitch = table.shape[1] * table.element_size()
            pairs = zip(self.sizes, self.parameters[i::2], strict=True)
            columns.append(torch.cat([torch.arange(k) * pitch + p.data_ptr() for k, p in pairs]))
        addresses = torch.stack(columns, 1).to(self.least.device)
        old = (self.old[0], self.old[1])
        memory = trust.Memory(
            addresses, old, self.least, self.grid, self.counts, self.spec, self.most
        )
        return self.kernel.Rows(memory)

    def _count(self, cut: Tensor) -> None:
        self.steps += 1
        self.held += cut
        self.since.copy_(torch.where((self.since == 0) & cut, self.steps, self.since))

    def _whole(self) -> list[Tensor]:
        return [_full(p) for p in self.parameters] if self.sharded else self.parameters

    def by_unit(self, rows: Tensor) -> dict[str, Tensor]:
        """Views of a table with a column for each row of the bank."""
        parts = zip(self.distinct, rows.split(self.sizes, 1), strict=True)
        own = {id(unit.a): part for unit, part in parts}
        return {name: own[id(unit.a)] for name, unit in self.units.items()}

    def report(self) -> Iterator[Held]:
        for name, (steps, held, since) in self.by_unit(self.counts).items():
            begun = since[since > 0]
            first = int(begun.min()) if len(begun) else None
            yield Held(name, int(steps.max()), int(held.max()), first)


def check(name: str, unit: PAU) -> None:
    """Whether its coefficients can be written."""
    counts = unit.degrees[0] + 1, unit.degrees[1] + unit.spec.constant
    shapes = [(c,) if unit.groups == 1 else (unit.groups, c) for c in counts]
    for p, shape in zip((unit.a, unit.b), shapes, strict=True):
        if not isinstance(p, nn.Parameter) or p.shape != shape:
            raise ValueError(
                f"the coefficients of unit {name!r} are not Parameters of their full shape, so "
                "that a step of them cannot be shortened: a parametrization or torch's pruning "
                "computes them, or FSDP of the first version keeps pieces. Leave the unit out of "
                "that, or use fully_shard."
            )
        if p.is_meta:
            raise ValueError(
                f"the coefficients of unit {name!r} are on the device 'meta' and have no values. "
                "Build the optimizer, and call stabilize, when the model has got its own."
            )


def _kernel_for(unit: PAU) -> Any:
    """What holds units such as this at once, or None: by operations of torch."""
    a, b = unit.a.detach(), unit.b.detach()
    if native_steps.can_hold(a, b):
        return native_steps
    if gpu.refuses_device(a.device) is None:
        from padenet.torch.kernels.gpu import steps

        return steps if a.dtype in steps.KINDS else None
    return None


def _is_plain(p: Tensor, like: Tensor) -> bool:
    """Whether a kernel finds its numbers, alike those of ``like``, one after another."""
    return (
        type(p) in (nn.Parameter, Tensor)
        and (p.shape, p.dtype, p.device) == (like.shape, like.dtype, like.device)
        and p.is_contiguous()
        and not p.is_neg()
    )


def _least(unit: PAU) -> Tensor:
    """What b_n of each group is kept beyond, with its sign; 0 where it may be anything, or is
    frozen."""
    b = starting_coefficients(unit.init, unit.degrees, unit.spec, unit.aim)[1]
    if not (unit.degrees[1] and unit.spec.flags.around and unit.b.requires_grad):
        return torch.zeros(unit.groups, dtype=torch.float64)
    return (trust.FLOOR * b[..., -1]).expand(unit.groups).contiguous()


def is_sharded(p: Any) -> bool:
    """Whether a parameter is a DTensor, as FSDP2 makes them."""
    return hasattr(p, "full_tensor")


def _full(p: Any) -> Tensor:
    whole: Tensor = p.full_tensor()
    return whole


def _write_shards(parameters: list[Any], values: list[Tensor]) -> None:
    from torch.distributed.tensor import distribute_tensor

    for p, value in zip(parameters, values, strict=True):
        p.copy_(distribute_tensor(value, p.device_mesh, p.placements))
