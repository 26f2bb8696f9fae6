"""What the units of flax and of equinox have in common: their start, and what they say of it."""

from collections.abc import Callable
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from padenet.core.fitting import check_degrees, fit_function
from padenet.core.forms import Spec, check_spec
from padenet.core.initial import starting_coefficients

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
    if not isinstance(groups, Integral) or groups < 1:
        raise ValueError(f"groups={groups!r} must be a whole number from 1 on: that of units.")
    if aim is not None and not (isinstance(init, str) or callable(init)):
        raise ValueError(f"aim={aim!r} is about names and functions. Leave it out.")
    spec = spec._replace(q=float(spec.q), alpha=float(spec.alpha))
    name = repr(init) if isinstance(init, str) else "given"
    if callable(init):
        init = fit_function(lambda x: np.asarray(_call(init, x)), degrees, spec.form, spec.q, aim)
        aim = None
    a, b = starting_coefficients(init, degrees, spec, aim)
    if a.ndim == 2 and a.shape[0] != groups:
        raise ValueError(f"init has values for {a.shape[0]} groups, but groups={groups}.")
    a, b = (np.broadcast_to(np.atleast_2d(c), (groups, c.shape[-1])) for c in (a, b))
    kept = degrees[1] and spec.flags.around
    floor = tuple(float(FLOOR * v) if kept else 0.0 for v in (b[:, -1] if kept else a[:, 0]))
    kind = Kind(name, degrees, spec, int(groups), floor)
    return (a[0], b[0], kind) if groups == 1 else (a, b, kind)


def _call(f: Callable[[Any], Any], x: Any) -> Any:
    """A function of JAX takes no float64, unless JAX is told to have it, and gives none."""
    return f(np.asarray(x))
