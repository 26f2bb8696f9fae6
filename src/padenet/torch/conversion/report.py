"""What ``convert`` replaced, how close the units are to what they replaced, and what it left."""

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from padenet.torch.conversion.calibration import Seen
from padenet.torch.functional import rational
from padenet.torch.nn import PAU, starting_coefficients

GRID = 6000  # points over [-3, 3]
NEAR = 3.0
FAR = 1e6  # where a bounded function and a unit that is not have parted


class Replaced(NamedTuple):
    """A unit and its error against what it replaced, at first as started or calibrated.

    ``rms`` and ``max_error`` are over ``interval``: [-3, 3], or with ``calibrate`` the ``inputs``
    that the unit saw, of which there were so many, and all between. ``at_6`` and ``at_10`` are the
    greater |error| at -6 and 6, at -10 and 10. ``warning`` and ``note`` are "" where there is none.
    """

    name: str
    was: str
    start: str
    rms: float
    max_error: float
    at_6: float
    at_10: float
    interval: tuple[float, float] = (-NEAR, NEAR)
    inputs: int | None = None
    warning: str = ""
    note: str = ""


class Left(NamedTuple):
    name: str
    why: str


@dataclass(frozen=True)
class Report:
    """What ``convert`` did; ``print`` it for a table."""

    replaced: tuple[Replaced, ...]
    left: tuple[Left, ...]

    def __str__(self) -> str:
        lines = [f"{len(self.replaced)} replaced, {len(self.left)} left"]
        rows = self.table()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows if self.replaced else []:
            cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
            lines.append("  " + "  ".join(cells).rstrip())
        for label, entries in (
            ("warning", [(r.warning, r.name) for r in self.replaced if r.warning]),
            ("note", [(r.note, r.name) for r in self.replaced if r.note]),
            ("left", [(entry.why, entry.name) for entry in self.left]),
        ):
            lines += [f"  {label}: {line}" for line in _by_reason(entries)]
        return "\n".join(lines)

    def table(self) -> list[tuple[str, ...]]:
        """The head and a row for each unit, as texts."""
        seen = any(r.inputs is not None for r in self.replaced)
        head = ("unit", "was", "starts as", "rms error", "max")
        rows = [(*head, *(("inputs",) if seen else ("at ±6", "at ±10")))]
        for r in self.replaced:
            low, high = r.interval
            unseen = f"none seen; [{low:.3g}, {high:.3g}]"
            inputs = unseen if r.inputs is None else f"{r.inputs} in [{low:.3g}, {high:.3g}]"
            errors = [r.rms, r.max_error, *(() if seen else (r.at_6, r.at_10))]
            cells = (r.name or "(model)", r.was, r.start, *(f"{e:.1e}" for e in errors))
            rows.append((*cells, *((inputs,) if seen else ())))
        return rows

    def to_json(self) -> str:
        """All of it: {"replaced": [...], "left": [...]}."""
        entries = {k: [e._asdict() for e in getattr(self, k)] for k in ("replaced", "left")}
        return json.dumps(_finite(entries), indent=2)


def judge(
    name: str,
    was: str,
    start: str,
    unit: nn.Module,
    function: Callable[[Tensor], Tensor],
    seen: Seen | None = None,
) -> Replaced:
    """The errors of ``unit`` as it is, or, on the meta device, as it will start.

    ``function`` takes a tensor (points, groups). Errors of what is no PAU are not known: NaN.
    """
    if not isinstance(unit, PAU):
        return Replaced(name, was, start, math.nan, math.nan, math.nan, math.nan)
    if unit.a.is_meta:
        a, b = starting_coefficients(unit.init, unit.degrees, unit.spec, unit.aim)
    else:
        a, b = (c.detach().double().cpu() for c in (unit.a, unit.b))

    def values(x: Tensor) -> tuple[Tensor, Tensor]:
        x = x.double()[:, None].expand(-1, unit.groups).contiguous()
        return rational(x, a, b, form=unit.form, q=unit.q, channel_dim=1), function(x)

    def errors(x: Tensor) -> Tensor:
        y, wanted = values(x)
        return (y - wanted).abs()

    near = errors((torch.arange(GRID, dtype=torch.float64) + 0.5) * (2 * NEAR / GRID) - NEAR)
    rms, most, limits = float(near.square().mean().sqrt()), float(near.max()), (-NEAR, NEAR)
    if seen is not None:
        rms, most, limits = seen.rms, seen.max_error, (seen.low, seen.high)
        start = f"fitted by {seen.by}"
    at_6, at_10 = (float(errors(torch.tensor([-v, v])).max()) for v in (6.0, 10.0))
    y, wanted = (v.abs().max() for v in values(torch.tensor([-FAR, FAR])))
    bounded = float(wanted) <= float(values(torch.tensor([-FAR / 1e3, FAR / 1e3]))[1].abs().max())
    warning = ""
    if bounded and float(y) > 10 * (1 + float(wanted)):
        warning = f"{was} is bounded and its unit is not: it grows with |x| beyond "
        warning += "its inputs" if seen else "about ±10"
    count = seen.total if seen else None
    return Replaced(name, was, start, rms, most, at_6, at_10, limits, count, warning)


def _by_reason(entries: Iterable[tuple[str, str]]) -> list[str]:
    """A line for each reason, with the first of the names that have it."""
    names: dict[str, list[str]] = {}
    for why, name in entries:
        names.setdefault(why, []).append(name or "(model)")
    more = {why: f" and {len(n) - 4} more" if len(n) > 4 else "" for why, n in names.items()}
    return [f"{', '.join(n[:4])}{more[why]}: {why}" for why, n in names.items()]


def _finite(value: Any) -> Any:
    """``value`` with None for numbers that JSON does not have."""
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
