r"""The search for coefficients: least squares by variable projection, minimax by linear programs.

Least squares. For given b the best a is a linear problem, so the search runs over b alone
(variable projection) from many starts, with one fixed seed:

    F = C a,  C = T / Q (T: Chebyshev basis),  C = U R,  F = U Uᵀ f
    dF/db_k ≈ (I - U Uᵀ) (-dQ/db_k F / Q)           (Kaufman's Jacobian)

Minimax. From the best of those optima, linear programs: a step that minimises the greatest
|F - f + J step|, with Q changed by no more than a fraction that shrinks when a step fails.

``b[0]`` is b_1, except in ``offset``, where it is b_0. Here b is scaled: p_k = b_k size^k.
"""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev

from padenet.core.forms import FORMS, Form
from padenet.core.support.extras import require

Array = np.ndarray
STARTS_TRIED = 10  # for every free coefficient
OPTIMA_REFINED = 4


class Problem:
    """The error of F at the points ``x`` as a function of the scaled b of the given powers.

    ``weight`` is the square root of the weight of each point, ``least`` a bound of the last b from
    below, ``most`` one of all |b| from above.
    """

    def __init__(
        self,
        x: Array,
        y: Array,
        weight: Array,
        interval: tuple[float, float],
        m: int,
        powers: Sequence[int],
        form: str = "safe",
        q: float = 1.0,
        least: float = 0.0,
        most: float = np.inf,
    ):
        low, high = interval
        self.middle, self.half = (low + high) / 2, (high - low) / 2
        self.size = max(abs(low), abs(high))
        self.m, self.free, self.form, self.q = m, np.array(powers, int), FORMS[form], q
        t = x / self.size
        self.ends = low / self.size, high / self.size
        self.powers = (np.abs(t) if self.form.per_term else t)[:, None] ** self.free
        self.basis = chebyshev.chebvander((x - self.middle) / self.half, m) * weight[:, None]
        self.y, self.weight = y * weight, weight
        top = most * self.size ** self.free.astype(float)
        bottom = np.zeros(len(top)) if self.form.per_term else -top
        if least:
            bottom[-1] = least * self.size ** float(self.free[-1])
        self.bounds = bottom, top

    def denominator(self, p: Array) -> tuple[Array, Array]:
        """Q and dQ/dp."""
        if self.form.per_term:
            return 1 + self.powers @ np.abs(p), self.powers * np.where(p < 0, -1.0, 1.0)
        A = self.powers @ p
        if not self.form.around:
            return 1 + A, self.powers
        return self.q + np.abs(A), np.sign(A)[:, None] * self.powers

    def scaled(self, b: Array) -> Array:
        """p for the coefficients b, within the bounds."""
        p = b[self.free - (1 - self.form.constant)] * self.size**self.free
        return np.clip(p, *self.bounds)

    def has_pole(self, p: Array) -> bool:
        """Whether Q of ``free`` has a root on the interval, or a pair of roots next to it."""
        if not self.form.has_poles or not len(p):
            return False
        c = np.zeros(self.free[-1] + 1)
        c[0], c[self.free] = 1.0, p
        if not np.isfinite(c).all():
            return True
        roots = np.roots(c[::-1])
        low, high = self.ends
        near = (roots.real >= low - 1e-9) & (roots.real <= high + 1e-9)
        return bool((near & (np.abs(roots.imag) < 1e-5)).any())

    def project(self, p: Array) -> tuple[Array, Array, Array, Array]:
        Q, slopes = self.denominator(p)
        U, R = np.linalg.qr(self.basis / Q[:, None])
        return Q, slopes, U, R

    def residual(self, p: Array) -> Array:
        if self.has_pole(p):
            return np.full_like(self.y, np.inf)
        U = self.project(p)[2]
        return U @ (U.T @ self.y) - self.y

    def jacobian(self, p: Array) -> Array:
        Q, slopes, U, _ = self.project(p)
        D = -(U @ (U.T @ self.y) / Q)[:, None] * slopes
        return D - U @ (U.T @ D)

    def solve(self, p: Array, steps: int, tolerance: float = 1e-15) -> Any:
        return require("scipy.optimize", "fit").least_squares(
            self.residual,
            p,
            self.jacobian,
            bounds=self.bounds,
            x_scale="jac",
            ftol=tolerance,
            xtol=tolerance,
            gtol=1e-15,
            max_nfev=steps,
        )

    def numerator(self, p: Array) -> Array:
        """The best P for ``p``, in the Chebyshev basis."""
        _, _, U, R = self.project(p)
        return np.linalg.solve(R, U.T @ self.y)

    def coefficients(self, p: Array, c: Array | None = None) -> tuple[Array, Array]:
        """(a, b) in powers of x; where the sign of A is free, its last coefficient is positive."""
        a = np.zeros(self.m + 1)
        series = chebyshev.cheb2poly(self.numerator(p) if c is None else c)
        a[: len(series)] = series / self.half ** np.arange(len(series))
        for i in range(self.m):  # from powers of x - middle
            for j in reversed(range(i, self.m)):
                a[j] -= self.middle * a[j + 1]
        first = 1 - self.form.constant
        b = np.zeros(self.free.max(initial=0) + 1)
        if self.form.around and len(p) and p[-1] < 0:
            p = -p
        b[self.free] = p / self.size**self.free
        return a, b[first:]


def strays(b: Array, form: Form, interval: tuple[float, float]) -> bool:
    """Whether A, or for ``free`` Q, has a zero beyond the interval, that at 0 left out."""
    if form.per_term or not b.any():
        return False
    roots = np.roots(np.concatenate([b[::-1], [1.0] if form.has_poles else []]))
    x = roots[(np.abs(roots.imag) <= 1e-6 * np.abs(roots)) & (roots != 0)].real
    return bool(((x < interval[0]) | (x > interval[1])).any())


def random_starts(count: int, length: int) -> Iterator[Array]:
    rng = np.random.default_rng(0)
    for _ in range(count):
        yield rng.standard_normal(length) * 10 ** rng.uniform(-1, 2.5, length)


def optima(
    problem: Problem, starts: Iterable[Array], steps: int = 200, tolerance: float = 1e-15
) -> list[Any]:
    """What the starts lead to, the best first. An exact fit ends the search."""
    found = []
    for p in starts:
        found.append(problem.solve(p, steps, tolerance))
        if 2 * found[-1].cost <= (1e-15 * np.linalg.norm(problem.y)) ** 2:
            break
    return sorted(found, key=lambda optimum: optimum.cost)


def candidates(
    coarse: Problem,
    fine: Problem,
    dense: Problem,
    norm: str,
    count: int,
    start: Array | None = None,
) -> Iterator[tuple[Array, Array]]:
    """Coefficients worth a look: ``count`` optima by least squares, the best first.

    For ``max`` each is followed by the minimax optimum near it. With ``start``, some b, there is
    one: that next to it.
    """
    length = len(coarse.free)
    if length == 0:
        found = [np.zeros(0)]
    elif start is not None:
        found = [fine.solve(fine.scaled(start), 200, 1e-12).x]
    else:
        distinct: list[Any] = []
        for other in optima(coarse, _starts(coarse), 60, 1e-6):
            if all(abs(other.cost - o.cost) > 1e-3 * o.cost for o in distinct):
                distinct.append(other)
        found = [fine.solve(o.x, 200, 1e-12).x for o in distinct[:count]]
    for p in found:
        yield fine.coefficients(p)
        if norm == "max":
            yield dense.coefficients(*_minimax(dense, p))


def _starts(problem: Problem) -> Iterator[Array]:
    """One plain, one from the linear problem P - f Q = 0, and random ones."""
    length = len(problem.free)
    plain = np.where(problem.free % 2, 0.1, 1.0)
    system = np.hstack([problem.basis, -problem.y[:, None] * problem.powers])
    linear = np.linalg.lstsq(system, problem.q * problem.y, rcond=None)[0][problem.m + 1 :]
    for p in (plain, linear, *random_starts(STARTS_TRIED * length, length)):
        p = p * problem.q
        bottom, top = problem.bounds
        if problem.form.per_term:
            p = np.maximum(np.abs(p), 1e-8)
        elif length and bottom[-1] > 0 > p[-1]:
            p = -p  # the same Q
        p = np.clip(p, bottom, top)
        while problem.has_pole(p):
            p = p / 2
        yield p


def _minimax(problem: Problem, p: Array) -> tuple[Array, Array]:
    """From the least squares optimum ``p`` to a minimax one near it: p and the numerator."""
    V, y, k = problem.basis, problem.y, problem.m + 1
    c = problem.numerator(p)
    points = np.unique(np.linspace(0, len(y) - 1, 200).astype(int))
    spread = points[::3]
    radius = 0.5

    def error(p: Array, c: Array) -> Array:
        Q = problem.denominator(p)[0]
        return V @ c / Q - y

    r = error(p, c)
    for _ in range(60):
        worst = np.abs(r).max()
        if worst <= 1e-15 * max(np.abs(y).max(), 1e-300):
            break
        size = np.abs(r)
        peaks = np.flatnonzero((size[1:-1] >= size[:-2]) & (size[1:-1] >= size[2:])) + 1
        peaks = peaks[np.argsort(-size[peaks])[:40]]
        points = np.union1d(points, peaks)
        Q, slopes = problem.denominator(p)
        J = np.hstack([V / Q[:, None], -((r + y) / Q)[:, None] * slopes])[points]
        step = _program(
            r[points] / worst,
            J,
            slopes[spread] / Q[spread, None],
            p if problem.form.per_term else None,
            worst,
            radius,
        )
        if step is None:
            radius /= 4
        else:
            expected, d = step
            new_c, new_p = c + d[:k], p + d[k:]
            new = error(new_p, new_c)
            gained = worst - np.abs(new).max()
            if gained > 0 and not problem.has_pole(new_p):
                p, c, r = new_p, new_c, new
            if worst - expected * worst <= 1e-6 * worst:
                break
            radius = min(2 * radius, 0.9) if gained > 0.3 * (1 - expected) * worst else radius / 4
        if radius < 1e-7:
            break
    return p, c


def _program(
    r: Array, J: Array, change: Array, floor: Array | None, unit: float, radius: float
) -> tuple[float, Array] | None:
    """The step d that minimises e = max |r + J d / unit|, with |change d_p| <= radius.

    It is sought in an orthonormal basis of J, without the directions that J cannot tell apart.
    """
    k = J.shape[1] - change.shape[1]
    scale = np.linalg.norm(J, axis=0)
    scale[scale == 0] = 1
    U, S, Vt = np.linalg.svd(J / scale, full_matrices=False)
    keep = S / S[0] > 1e-12
    to_step = (Vt[keep].T / S[keep]) * unit / scale[:, None]
    U = U[:, keep]
    ones = np.ones((len(r), 1))
    rows = [np.hstack([U, -ones]), np.hstack([-U, -ones])]
    limits = [-r, r]
    if change.shape[1]:
        moved = change @ to_step[k:] / radius
        rows += [np.pad(moved, ((0, 0), (0, 1))), np.pad(-moved, ((0, 0), (0, 1)))]
        limits += [np.ones(len(moved))] * 2
    if floor is not None and len(floor):
        rows.append(np.pad(-to_step[k:], ((0, 0), (0, 1))))
        limits.append(floor)
    cost = np.zeros(U.shape[1] + 1)
    cost[-1] = 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = require("scipy.optimize", "fit").linprog(
            cost, np.vstack(rows), np.concatenate(limits), bounds=(None, None), method="highs"
        )
    if found.status != 0:
        return None
    d = to_step @ found.x[:-1]
    if floor is not None:
        d[k:] = np.maximum(d[k:], -floor)
    return float(found.x[-1]), d
