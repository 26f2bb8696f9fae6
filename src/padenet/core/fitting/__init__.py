"""Coefficients for a function: ``pade`` from its series, ``fit`` from its values; and ``gain``.

    series.py    pade, exact
    samples.py   the values of a function or a table at the points of a fit
    search.py    the numerical core: least squares and minimax

``b[0]`` is b_1, except in ``offset``, where it is b_0.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np

from padenet.core.arrays import evaluate, floats
from padenet.core.fitting.samples import Array, Data, Function, sample, tabulate, weigh
from padenet.core.fitting.search import OPTIMA_REFINED, Problem, candidates, strays
from padenet.core.fitting.series import pade
from padenet.core.forms import FORMS, Spec, check_spec
from padenet.core.starting.aims import WEIGHTED, Aim, find_aim
from padenet.core.starting.starts import find_start
from padenet.core.starting.targets import TARGETS
from padenet.core.support.names import unknown

__all__ = ["TARGETS", "Fit", "fit", "fit_function", "gain", "pade"]

NORMS = ("rms", "max")
SAME = 1.001  # of two optima this close the first is taken
MOST = 32  # of a degree: on the way there powers of x lose all digits, and ReLU's error grows
POWERS = 1e290  # the greatest power of an x, or of 1 / x, that leaves room to compute with


@dataclass(frozen=True)
class Fit:
    """F = P / Q near a function: ``rms`` and ``max_error`` are those of F over ``interval``.

    ``far_error`` is the greatest |F - f| over 10/3 of the interval's reach, (-10, 10) for (-3, 3);
    None for a table, and for a function that is not finite all over it.
    """

    a: tuple[float, ...]
    b: tuple[float, ...]
    rms: float
    max_error: float
    form: str
    q: float
    interval: tuple[float, float]
    degrees: tuple[int, int]
    norm: str
    aim: str = "near"
    far_error: float | None = None


def fit(
    f: Function | tuple[Any, Any],
    degrees: tuple[int, int] = (5, 4),
    *,
    interval: tuple[float, float] | None = None,
    form: str = "safe",
    q: float = 1.0,
    norm: str = "rms",
    aim: str | None = None,
    weights: tuple[Any, Any] | None = None,
) -> Fit:
    r"""The F = P / Q nearest to ``f`` on ``interval``, and beyond it as ``aim`` says.

    The search is global in practice (many starts, fixed seed, no chance involved), not by proof.

    Args:
        f: A function of a tensor or an array, elementwise; an ``nn.Module``; or a table, the pair
            (x, y) of its arguments and values, one-dimensional.
        degrees: (m, n) of P and Q, at most 32.
        interval: (low, high), by default (-3, 3) or that of the table.
        form: "safe", "abs_terms", "free" (without a pole on the interval) or "offset".
        q: Constant of the denominator of "safe" and "offset", in [1e-6, 1].
        norm: "rms", least squares, or "max", the smallest maximum.
        aim: "wide", close on the interval and not far off up to 10/3 of its reach; "near", as
            close as possible on the interval; "steady", close on the interval with b_n >= 0.3,
            which trains best (``core.starting.aims``). By default "wide" for a function without an
            ``interval``, else "near", the only one for ``norm="max"``.
        weights: A histogram, the pair (edges, weights) with one edge more than weights: how much
            each bin counts. It replaces ``interval`` and ``aim``.

    Returns:
        ``Fit``, which ``PAU`` takes as ``init``. Its errors are measured with the coefficients
        returned, in float64, at 20001 points of the interval, at those of the table, or in the
        bins of the histogram, where ``rms`` is weighted too.
    """
    check_spec(Spec(form, q))
    m, n = check_degrees(degrees)
    if max(m, n) > MOST:
        raise ValueError(
            f"degrees=({m}, {n}) are more than a fit in float64 can use: at most {MOST}. Most "
            "functions are as close as rounding lets them be by (16, 16)."
        )
    if norm not in NORMS:
        raise unknown("norm", norm, NORMS)
    if weights is not None:
        _check_weighted(interval, norm, aim)
        if not callable(f):
            raise TypeError("weights needs a function, and f is a table. Pass a callable.")
        wanted = Fit((), (), 0, 0, form, float(q), (0, 0), (m, n), norm, "weighted")
        return search(weigh(f, weights, m + n + 1), wanted, WEIGHTED)
    if aim is None:
        aim = "wide" if callable(f) and interval is None and norm == "rms" else "near"
    chosen = find_aim(aim)
    _check_aim(aim, chosen, callable(f), n, form, norm)
    wanted = Fit((), (), 0, 0, form, float(q), (0, 0), (m, n), norm, aim)
    beyond = chosen.beyond
    data = sample(f, interval, beyond) if callable(f) else tabulate(f, interval, m + n + 1)
    return search(data, wanted, chosen)


def refit(f: Function, weights: tuple[Any, Any], near: Fit) -> Fit:
    """The optimum for other weights that is closest to the fit ``near``."""
    return search(weigh(f, weights, sum(near.degrees) + 1), near, WEIGHTED)


def search(data: Data, wanted: Fit, aim: Aim) -> Fit:
    """``wanted`` with its interval, coefficients and errors. Its own coefficients, if any, are
    the only place from which to search."""
    (m, n), form, q, norm = wanted.degrees, wanted.form, wanted.q, wanted.norm
    _check_size(data, max(m, n))
    wanted = replace(wanted, interval=data.interval)
    start = np.array(wanted.b) if wanted.a else None
    flags = FORMS[form]
    sets = [tuple(range(1 - flags.constant, n + 1))]
    if flags.around and n > 1 and not (aim.least and n % 2):
        sets.insert(0, tuple(k for k in sets[0] if k % 2 == 0))
    count = 1 if aim.stray == 1 and norm == "rms" else OPTIMA_REFINED
    best, least = None, np.inf
    for powers in sets:
        coarse, fine, dense = (
            Problem(x, y, w, data.span, m, powers, form, q, aim.least, aim.most)
            for x, y, w in data.levels
        )
        chosen, smallest = None, np.inf
        for a, b in candidates(coarse, fine, dense, norm, count, start):
            found = _measure(a, b, data, wanted)
            error = _weigh(found, data, aim)
            if chosen is None or error * SAME + data.rounding < smallest:
                chosen, smallest = found, error
        if best is None or smallest * aim.simpler + data.rounding < least:
            best, least = chosen, smallest
    assert best is not None
    nothing = _measure(np.zeros(m + 1), np.zeros(0), data, wanted)
    if not _weigh(best, data, aim) <= aim.stray * _weigh(nothing, data, aim):
        low, high = data.interval
        raise ValueError(
            f"no fit of degrees ({m}, {n}) on [{low:.12g}, {high:.12g}]: the best one found has an "
            f"rms error of {best.rms:.3g}, and 0 has {nothing.rms:.3g}. Powers of x lose their "
            "digits far from 0: shift or scale x, or lower the degrees."
        )
    return best


def _check_size(data: Data, degree: int) -> None:
    """Refuse x whose powers, and values whose squares, are no numbers in float64."""
    (low, high), most = data.span, POWERS ** (1 / max(degree, 2))
    if not (max(-low, high) <= most and (high - low) / 2 >= 1 / most):
        raise ValueError(
            f"the fit looks at [{low:g}, {high:g}], where powers up to {degree} of x are too large "
            f"or too small for float64. Keep the ends within ±{most:.1g} and {2 / most:.1g} apart, "
            "or scale x."
        )
    if (value := max(float(np.abs(y).max()) for _, y, _ in data.levels)) > POWERS**0.5:
        raise ValueError(f"the fit has values up to {value:g}, too large to square. Scale them.")


def _check_weighted(interval: Any, norm: str, aim: str | None) -> None:
    given = {"interval": interval, "aim": aim, "norm": None if norm == "rms" else norm}
    clash = [f"{name}={value!r}" for name, value in given.items() if value is not None]
    if clash:
        raise ValueError(f"weights goes without {' and '.join(clash)}. Leave one of the two out.")


def _check_aim(name: str, aim: Aim, function: bool, n: int, form: str, norm: str) -> None:
    if norm == "max" and name != "near":
        raise ValueError(
            f"norm='max' goes with aim='near' only, and aim={name!r} is by least squares. Leave "
            "one of the two out."
        )
    if aim.beyond and not function:
        raise ValueError(
            f"aim={name!r} needs values beyond the interval, and a table has none. Pass a "
            "function, or take aim='near' or 'steady'."
        )
    if aim.least and FORMS[form].has_poles:
        raise ValueError(
            f"aim={name!r} bounds the last b of |A|, but form={form!r} has no |A|. Take another "
            "form, or aim='near'."
        )
    if aim.least and n == 0:
        raise ValueError(
            f"aim={name!r} bounds the last b, but the degrees leave none. Take degrees (m, n) "
            "with n from 1 on, or aim='near'."
        )


def fit_function(
    f: Function, degrees: tuple[int, int], form: str, q: float, aim: str | None = None
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """(a, b) by ``fit``, with its default interval. Plain functions are fitted once."""
    plain = isinstance(f, (FunctionType, BuiltinFunctionType))
    found = (_remembered if plain else _fit_once)(f, degrees, form, q, aim)
    return found.a, found.b


def _fit_once(f: Function, degrees: tuple[int, int], form: str, q: float, aim: str | None) -> Fit:
    return fit(f, degrees, form=form, q=q, aim=aim)


_remembered = lru_cache(maxsize=64)(_fit_once)


def gain(unit: Any) -> float:
    r"""The gain of a unit for ``torch.nn.init``: 1 / sqrt(E[F(z)²]) for z ~ N(0, 1).

    Weights of variance gain² / fan_in keep the second moment of what follows the unit at 1 where
    its input is standard normal. ReLU has sqrt(2). The mean over z is taken by Gauss-Hermite
    quadrature; over several groups it is that of all of them.

        nn.init.normal_(linear.weight, std=gain(unit) / linear.in_features**0.5)
        nn.init.xavier_uniform_(linear.weight, gain=gain(unit))

    Args:
        unit: A ``PAU``, ``Fit`` or ``Start``, or the name of a start.
    """
    if isinstance(unit, str):
        unit = find_start(unit)
    try:
        a, b = floats(unit.a), floats(unit.b)
        form, q = str(unit.form), float(getattr(unit, "q", 1.0))
    except (AttributeError, TypeError):
        raise TypeError(
            f"gain takes a PAU, a Fit, a Start or the name of a start, not {type(unit).__name__}."
        ) from None
    z, w = np.polynomial.hermite_e.hermegauss(128)
    x = np.tile(z, (len(a) if a.ndim == 2 else 1, 1))
    y = evaluate(x, a, b, Spec(form, q, channel_dim=0))
    power = float((np.square(y).mean(0) * (w / w.sum())).sum())
    if not 0 < power < np.inf:
        raise ValueError(f"E[F(z)²] is {power}, so there is no gain: the unit is zero or infinite.")
    return power**-0.5


def _measure(a: Array, b: Array, data: Data, fit: Fit) -> Fit:
    """``fit`` with these coefficients and their errors."""
    n = fit.degrees[1]
    b = np.concatenate([b, np.zeros(n + FORMS[fit.form].constant - len(b))])
    terms = np.abs(a) * np.abs(data.span).max() ** np.arange(len(a))
    a = np.where(terms > 16 * np.finfo(float).eps * terms.max(), a, 0.0)  # the rest is rounding
    fit = replace(fit, a=tuple(a.tolist()), b=tuple(b.tolist()))
    error = _errors(fit, *data.levels[-1][:2])
    rms = float(np.sqrt(np.mean((error * data.levels[-1][2]) ** 2)))
    most = float(np.abs(error).max())
    far = float(np.abs(_errors(fit, *data.far)).max()) if data.far else None
    return replace(fit, rms=rms, max_error=most, far_error=far)


def _errors(fit: Fit, x: Array, y: Array) -> Array:
    return evaluate(x, fit.a, fit.b, Spec(fit.form, fit.q)) - y


def _weigh(fit: Fit, data: Data, aim: Aim) -> float:
    """The error that ``aim`` is about."""
    if aim.beyond:
        x, y, weight = data.levels[1]
        error = float(np.linalg.norm(_errors(fit, x, y) * weight))
    else:
        error = fit.rms if fit.norm == "rms" else fit.max_error
    return error * (aim.stray if strays(np.array(fit.b), FORMS[fit.form], fit.interval) else 1)


def check_degrees(degrees: Any) -> tuple[int, int]:
    try:
        m, n = (int(d) for d in degrees)
        whole = (m, n) == tuple(degrees)
    except (TypeError, ValueError):
        raise TypeError(f"degrees={degrees!r} must be a pair (m, n), e.g. (5, 4).") from None
    if not whole or m < 0 or n < 0:
        raise ValueError(f"degrees={degrees!r} must be whole numbers from 0 on, e.g. (5, 4).")
    return m, n
