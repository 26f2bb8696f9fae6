"""What a unit is made from: the coefficients it starts with, by name, pair, fit or function."""

from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np

from padenet.core.fitting import Fit, check_degrees, fit_function
from padenet.core.forms import Spec, check_shapes
from padenet.core.starting.starts import find_start, read_pair
from padenet.core.starting.targets import TARGETS

Start = str | tuple[Any, Any] | Fit
Init = Start | Callable[[Any], Any]


def read_start(init: Init, aim: str | None, degrees: tuple[int, int], spec: Spec) -> Start:
    """``init``, in which a function has become its coefficients: those can be copied and saved."""
    if aim is not None and not (isinstance(init, str) or callable(init)):
        kind = "a Fit" if isinstance(init, Fit) else "a pair"
        raise ValueError(f"aim={aim!r} is about names and functions; init is {kind}. Leave it out.")
    if callable(init):
        return fit_function(init, check_degrees(degrees), spec.form, spec.q, aim)
    return init


def count_groups(groups: Any) -> int:
    if not isinstance(groups, Integral) or groups < 1:
        raise ValueError(f"groups={groups!r} must be a whole number from 1 on: that of units.")
    return int(groups)


def starting_coefficients(
    init: Start, degrees: tuple[int, int], spec: Spec, aim: str | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """``a`` and ``b`` in float64 for ``init``, checked against ``degrees`` and the form.

    The target of a stored start that was made for other degrees, form or q is fitted over [-3, 3]
    with the same aim.
    """
    wanted = (degrees, spec.form, spec.q)
    pair: Any
    if isinstance(init, str):
        start = find_start(init, aim)
        if (start.degrees, start.form, 1.0) == wanted:
            pair = (start.a, start.b)
        elif start.name == start.target:
            pair = fit_function(TARGETS[start.target], *wanted, start.aim)
        else:
            raise ValueError(
                f"start {init!r} was made for degrees={start.degrees}, form={start.form!r}, "
                f"q=1.0, not for degrees={degrees}, form={spec.form!r}, q={spec.q}. "
                f"Keep those, or use the start {start.target!r}, which is fitted to any."
            )
    elif isinstance(init, Fit):
        if (init.degrees, init.form, init.q) != wanted:
            raise ValueError(
                f"init is a fit with degrees={init.degrees}, form={init.form!r}, q={init.q}, but "
                f"the unit has degrees={degrees}, form={spec.form!r}, q={spec.q}. Make them equal."
            )
        pair = (init.a, init.b)
    else:
        pair = init
    a, b = read_pair(pair, "init", "function or Fit")
    check_shapes(a.shape, b.shape, spec)
    m, n = degrees
    if a.shape[-1] != m + 1 or b.shape[-1] != n + spec.constant:
        raise ValueError(
            f"init has {a.shape[-1]} numerator and {b.shape[-1]} denominator values, but "
            f"degrees={degrees} with form={spec.form!r} needs {m + 1} and {n + spec.constant}."
        )
    return a, b


def spread(a: np.ndarray, b: np.ndarray, groups: int) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients of one unit, or of each, in the shapes of ``groups`` units."""
    if a.ndim == 2 and a.shape[0] != groups:
        raise ValueError(f"init has values for {a.shape[0]} groups, but groups={groups}.")
    lead = () if groups == 1 else (groups,)
    rows = (c.reshape(c.shape[-1]) if groups == 1 else c for c in (a, b))
    a, b = (np.broadcast_to(c, (*lead, c.shape[-1])) for c in rows)
    return a, b
