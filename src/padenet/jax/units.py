"""What the units of flax and of equinox have in common: their start, and what they say of it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from padenet.core.fitting import check_degrees
from padenet.core.forms import Spec, check_spec
from padenet.core.initial import count_groups, read_start, spread, starting_coefficients

Array = np.ndarray


class Kind(NamedTuple):
    """What a unit is, apart from its coefficients. ``floor``: what the stabiliser keeps b_n beyond,
    for each group, 0 for no limit."""

    init: str
    degrees: tuple[int, int]
    spec: Spec
    groups: int
    floor: tuple[float, ...]

    def __str__(self) -> str:
        parts = [f"init={self.init}", f"degrees={self.degrees}", f"form={self.spec.form!r}"]
        if self.spec.q != 1:
            parts.append(f"q={self.spec.q}")
        if self.groups != 1:
            parts += [f"groups={self.groups}", f"channel_dim={self.spec.channel_dim}"]
        if self.spec.alpha:
            parts.append(f"alpha={self.spec.alpha}")
        return ", ".join(parts)


FLOOR = 0.1  # part of the start's b_n that a unit keeps: docs/stability.md


def start(
    init: Any | Callable[[Any], Any],
    aim: str | None,
    degrees: tuple[int, int],
    groups: int,
    spec: Spec,
) -> tuple[Array, Array, Kind]:
    """``a`` and ``b`` in float64, (groups, terms) where there are several groups."""
    degrees = check_degrees(degrees)
    check_spec(spec)
    groups = count_groups(groups)
    spec = spec._replace(q=float(spec.q), alpha=float(spec.alpha))
    name = repr(init) if isinstance(init, str) else "given"
    read = read_start(init, aim, degrees, spec)
    a, b = starting_coefficients(read, degrees, spec, aim if isinstance(read, str) else None)
    a, b = spread(a, b, groups)
    kept = degrees[1] and spec.flags.around
    floor = tuple((FLOOR * np.atleast_2d(b)[:, -1]).tolist()) if kept else (0.0,) * groups
    return a, b, Kind(name, degrees, spec, groups, floor)
