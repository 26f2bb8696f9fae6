"""The coefficients with which a unit begins, whatever says so: a name, a pair, a fit."""

from typing import Any

import numpy as np

from padenet.core.fitting import Fit, fit_function
from padenet.core.forms import Spec, check_shapes
from padenet.core.starting.starts import find_start, read_pair
from padenet.core.starting.targets import TARGETS


def starting_coefficients(
    init: Any, degrees: tuple[int, int], spec: Spec, aim: str | None = None
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
