r"""What a unit is, in numbers: ``describe`` finds zeros, extrema, kinks, poles, slopes and more.

F = P / Q is one quotient of polynomials between the points where |A| has a kink: the sign changes
of A for "safe" and "offset", 0 for "abs_terms". On each such piece

    F'  = N / Q²        N = P' Q - P Q'
    F'' = (N' Q - 2 N Q') / Q³

so extrema and the greatest slope are found among zeros of polynomials and the ends of the pieces,
where the slope is one-sided. Nothing is sampled but the distance to known activations.

``b[0]`` is b_1, except in ``offset``, where it is b_0.
"""

from dataclasses import dataclass
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from padenet.core.arrays import evaluate
from padenet.core.fitting import gain
from padenet.core.fitting.samples import check_interval
from padenet.core.forms import Spec, check_shapes, check_spec
from padenet.core.polynomials import (
    Array,
    add,
    cross,
    crossings,
    derivative,
    sign_between,
    value,
    vanishes,
    zeros,
)
from padenet.core.starting.starts import find_start, read_pair
from padenet.core.starting.targets import TARGETS

GRID = 6000  # points for the distance to an activation
REACH = 15.0  # a pole closer to 0 than this makes the gain meaningless


class Tail(NamedTuple):
    """F(x) is close to factor · x^power far out on one side: a slope where power is 1."""

    power: int
    factor: float

    def __str__(self) -> str:
        power = {0: "", 1: " x"}.get(self.power, f" x^{self.power}")
        return f"{self.factor:.3g}{power}"


class Point(NamedTuple):
    x: float
    y: float


@dataclass(frozen=True)
class Facts:
    """What ``describe`` found. All but ``at_zero``, the tails and ``gain`` is about ``interval``.

    ``closest`` is the known activation with the least RMS ``distance``. ``lipschitz`` is the
    greatest |F'|, infinite with a pole. ``minima`` and ``maxima`` are local and inside the
    interval, at a kink too. ``gain`` is ``padenet.gain``, None where there is none.
    """

    form: str
    q: float
    degrees: tuple[int, int]
    interval: tuple[float, float]
    closest: str
    distance: float
    at_zero: float
    left: Tail
    right: Tail
    zeros: tuple[float, ...]
    minima: tuple[Point, ...]
    maxima: tuple[Point, ...]
    kinks: tuple[float, ...]
    poles: tuple[float, ...]
    lipschitz: float
    gain: float | None

    @property
    def is_monotone(self) -> bool:
        """Whether F only rises or only falls on the interval."""
        return not (self.minima or self.maxima or self.poles)


def describe(
    unit: Any,
    *,
    form: str | None = None,
    q: float | None = None,
    interval: tuple[float, float] = (-3.0, 3.0),
    group: int | None = None,
) -> Facts:
    """The facts about a unit on an interval, in float64.

    Args:
        unit: A ``PAU``, ``Fit`` or ``Start``, the name of a start, or a pair (a, b).
        form, q: Of a pair, by default "safe" and 1; others know theirs.
        interval: (low, high), finite.
        group: Which unit, where there are several.
    """
    a, b, spec = read_coefficients(unit, form, q, group)
    low, high = check_interval(interval)
    A = b if spec.constant else np.concatenate([[0.0], b])
    most = 1e290 ** (1 / (len(a) + len(A)))  # of x: its powers in P' Q - P Q' are numbers
    if max(-low, high) > most:
        raise ValueError(
            f"interval=({low:g}, {high:g}) goes beyond ±{most:.1g}, where powers of x are too "
            "large for float64. The tails say what F does far out."
        )
    pieces = _pieces(A, spec, low, high)
    roots = zeros(pieces[0].Q, low, high) if spec.has_poles else []
    poles = [x for x in roots if not vanishes(a, x)]
    steps = [_slopes(a, piece) for piece in pieces]
    greatest = max(float(np.abs(s).max()) for s in steps)
    minima, maxima = _extrema(a, pieces, poles)
    closest, distance = _closest(a, b, spec, (low, high))
    left, right = (_tail(a, A, spec, side) for side in (-1, 1))
    return Facts(
        form=spec.form,
        q=spec.q,
        degrees=(len(a) - 1, len(A) - 1),
        interval=(low, high),
        closest=closest,
        distance=distance,
        at_zero=float(a[0] / (spec.q + (A[0] if spec.has_poles else abs(A[0])))),
        left=left,
        right=right,
        zeros=tuple(x for x in zeros(a, low, high) if not any(abs(x - r) < 1e-9 for r in roots)),
        minima=minima,
        maxima=maxima,
        kinks=tuple(
            piece.low
            for piece, before, after in zip(pieces[1:], steps, steps[1:], strict=False)
            if abs(after[0] - before[1]) > 1e-9 * (abs(after[0]) + abs(before[1]))
        ),
        poles=tuple(poles),
        lipschitz=float("inf") if poles else greatest,
        gain=_gain(a, b, A, spec),
    )


def read_coefficients(
    unit: Any, form: str | None, q: float | None, group: int | None
) -> tuple[Array, Array, Spec]:
    """a, b and form of one unit, checked."""
    if isinstance(unit, str):
        unit = find_start(unit)
    if hasattr(unit, "a") and hasattr(unit, "b") and hasattr(unit, "form"):
        own = (unit.form, float(getattr(unit, "q", 1.0)))
        for name, given, known in zip(("form", "q"), (form, q), own, strict=True):
            if given is not None and given != known:
                raise ValueError(
                    f"{name}={given!r}, but the unit has {name}={known!r}. Leave it out."
                )
        spec, pair = Spec(*own), (unit.a, unit.b)
    else:
        spec, pair = Spec(form or "safe", 1.0 if q is None else float(q)), unit
    check_spec(spec)
    a, b = read_pair(pair, "unit", "PAU, Fit or Start")
    check_shapes(a.shape, b.shape, spec)
    if a.ndim == 2:
        if group is None or not 0 <= group < len(a):
            raise ValueError(
                f"group={group}, but the unit has {len(a)} groups. Name one: 0 to {len(a) - 1}."
            )
        a, b = a[group], b[group]
    elif group not in (None, 0):
        raise ValueError(f"group={group}, but the unit has no groups. Leave group out.")
    for name, c in (("a", a), ("b", b)):
        if not np.isfinite(c).all():
            raise ValueError(f"{name}={c.tolist()} is not finite: nothing can be said about F.")
    return a, b, spec


class _Piece(NamedTuple):
    low: float
    high: float
    Q: Array


def _pieces(A: Array, spec: Spec, low: float, high: float) -> list[_Piece]:
    """Q as a polynomial on each stretch on which it is one."""
    if spec.has_poles:
        cuts: list[float] = []
    elif spec.flags.per_term:
        cuts, A = [0.0] if low < 0 < high else [], np.abs(A)
    else:
        cuts = crossings(A, low, high).tolist()
    pieces = []
    for left, right in zip([low, *cuts], [*cuts, high], strict=True):
        signs: Any = 1.0
        if spec.flags.per_term:
            signs = np.sign(left + right) ** np.arange(len(A))
        elif spec.flags.around:
            signs = sign_between(A, left, right)
        Q = signs * A
        Q[0] += spec.q
        pieces.append(_Piece(left, right, Q))
    return pieces


def _slope(P: Array, Q: Array, x: Array) -> Array:
    bottom = value(Q, x)
    with np.errstate(divide="ignore", invalid="ignore"):
        y = (value(derivative(P), x) - value(derivative(Q), x) * value(P, x) / bottom) / bottom
    return np.where(bottom == 0, np.inf, y)


def _slopes(P: Array, piece: _Piece) -> Array:
    """F' at both ends of the piece and wherever it is greatest or least between them."""
    low, high, Q = piece
    bend = cross(cross(P, Q), Q, 2)
    return _slope(P, Q, np.array([low, high, *crossings(bend, low, high)]))


def _extrema(
    P: Array, pieces: list[_Piece], poles: list[float]
) -> tuple[tuple[Point, ...], tuple[Point, ...]]:
    """Points between a stretch on which F rises and one on which it falls."""
    minima: list[Point] = []
    maxima: list[Point] = []
    before = 0.0
    for low, high, Q in pieces:
        N = cross(P, Q)
        inside = sorted([*crossings(N, low, high), *(x for x in poles if low < x < high)])
        for x, end in zip([low, *inside], [*inside, high], strict=True):
            after = sign_between(N, x, end)
            if before * after < 0 and x not in poles:
                point = Point(float(x), float(value(P, x) / value(Q, x)))
                (maxima if after < 0 else minima).append(point)
            before = after
    return tuple(minima), tuple(maxima)


def _tail(a: Array, A: Array, spec: Spec, side: int) -> Tail:
    """The quotient of the leading terms; of |A| it is the absolute value that leads."""
    if not a.any():
        return Tail(0, 0.0)
    m, n = (int(np.flatnonzero(c)[-1]) if c.any() else 0 for c in (a, A))
    if n == 0:
        return Tail(m, float(a[m] / (spec.q + (A[0] if spec.has_poles else abs(A[0])))))
    bottom = A[n] if spec.has_poles else abs(A[n]) * side**n
    return Tail(m - n, float(a[m] / bottom))


@lru_cache(maxsize=8)
def _known(interval: tuple[float, float]) -> tuple[Array, Array]:
    low, high = interval
    x = low + (np.arange(GRID) + 0.5) * ((high - low) / GRID)
    return x, np.stack([f(x) for f in TARGETS.values()])


def _closest(a: Array, b: Array, spec: Spec, interval: tuple[float, float]) -> tuple[str, float]:
    x, known = _known(interval)
    y = evaluate(x, a, b, spec)
    distances = np.sqrt(np.mean((known - y) ** 2, axis=1))
    i = int(distances.argmin())
    return list(TARGETS)[i], float(distances[i])


def _gain(a: Array, b: Array, A: Array, spec: Spec) -> float | None:
    if spec.has_poles and zeros(add(A, np.ones(1)), -REACH, REACH):
        return None
    try:
        return gain(SimpleNamespace(a=a, b=b, form=spec.form, q=spec.q))
    except ValueError:  # the zero function
        return None
