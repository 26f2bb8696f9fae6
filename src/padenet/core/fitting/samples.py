"""The values of a function or a table at the points of a fit."""

import copy
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from padenet.core.arrays import floats
from padenet.core.starting.aims import reach

Array = np.ndarray
Function = Callable[[Any], Any]
GRID = 20001  # points over the interval on which errors are measured
NODES = 60, 400  # Gauss nodes a panel: of the search, of the polish
INSIDE = "in the interval of the fit. Choose an interval in which all values are finite."


class Data(NamedTuple):
    """Samples of f for the search, the polish and the measure: x, y, root of the weights.

    Those of the search and the polish lie in ``span``: the interval, or all of its reach where
    the aim weighs what is beyond. ``far`` holds x and y over the reach, None where f has none.
    """

    interval: tuple[float, float]
    span: tuple[float, float]
    levels: tuple[tuple[Array, Array, Array], ...]
    far: tuple[Array, Array] | None = None

    @property
    def rounding(self) -> float:
        return float(1e-15 * np.abs(self.levels[-1][1]).max())


def gauss(breaks: Sequence[float], nodes: int) -> tuple[Array, Array]:
    """Nodes and weights of the mean over the given panels."""
    t, w = np.polynomial.legendre.leggauss(nodes)
    half = np.diff(breaks)[:, None] / 2
    middle = (np.array(breaks[1:]) + breaks[:-1])[:, None] / 2
    weights = (half * w).ravel()
    return (middle + half * t).ravel(), weights / (breaks[-1] - breaks[0])


def sample(f: Any, interval: tuple[float, float] | None, beyond: float = 0.0) -> Data:
    """``beyond`` is the weight of a unit of length beyond the interval; inside it is 1."""
    low, high = check_interval((-3.0, 3.0) if interval is None else interval)
    first, last = reach((low, high))
    span = (first, last) if beyond else (low, high)
    breaks = sorted({*span, low, high, *([0.0] if span[0] < 0 < span[1] else [])})
    nodes = [gauss(breaks, n) for n in NODES]
    with np.errstate(all="ignore"):  # where the reach is no number
        grids = [_grid(low, high), _grid(first, last)]
    points = [*(x for x, _ in nodes), *grids]
    x = np.concatenate(points)
    y = np.full(len(x), np.nan)
    inside = (x >= low) & (x <= high)
    y[inside] = call(f, x[inside])
    where = (
        f"beyond the interval, and aim='wide' looks at f on [{first:.6g}, {last:.6g}]. Take "
        "aim='near', or a smaller interval."
    )
    try:
        with np.errstate(all="ignore"):
            y[~inside] = call(f, x[~inside], where)
    except (TypeError, ValueError) as error:
        if beyond:
            failed = isinstance(error, TypeError)
            raise ValueError(f"f fails {where} {error}" if failed else str(error)) from error
    *values, y_inside, y_far = np.split(y, np.cumsum([len(v) for v in points[:-1]]))
    levels = []
    for (x, w), y in zip(nodes, values, strict=True):
        w = w * (span[1] - span[0]) / (high - low)
        levels.append((x, y, np.sqrt(np.where((x < low) | (x > high), w * beyond, w))))
    levels.append((grids[0], y_inside, np.ones(GRID)))
    far = (grids[1], y_far) if np.isfinite(y_far).all() else None
    return Data((low, high), span, tuple(levels), far)


def weigh(f: Function, weights: Any, need: int) -> Data:
    """``f`` over the bins of a histogram, each counted as much as it weighs."""
    edges, mass = check_weights(weights)
    most = int(np.ceil(need / np.count_nonzero(mass)))
    nodes = [most * n for n in (1, 4)]
    points = []
    for n in nodes:
        t, w = np.polynomial.legendre.leggauss(n)
        half, middle = np.diff(edges)[:, None] / 2, (edges[1:] + edges[:-1])[:, None] / 2
        points.append(((middle + half * t).ravel(), (mass[:, None] * w / 2).ravel()))
    y = np.split(call(f, np.concatenate([x for x, _ in points])), [len(points[0][0])])
    coarse, fine = ((x, y, np.sqrt(w)) for (x, w), y in zip(points, y, strict=True))
    span = float(edges[0]), float(edges[-1])
    dense = (fine[0], fine[1], fine[2] * len(fine[0]) ** 0.5)
    return Data(span, span, (coarse, fine, dense))


def check_weights(weights: Any) -> tuple[Array, Array]:
    """Edges of bins and their weights, which sum to 1."""
    try:
        edges, mass = (np.asarray(v, dtype=float) for v in weights)
    except (TypeError, ValueError):
        raise TypeError(
            f"weights is {type(weights).__name__}. It must be a pair of one-dimensional arrays: "
            "the edges of bins and what each bin counts."
        ) from None
    if edges.ndim != 1 or mass.ndim != 1 or len(edges) != len(mass) + 1 or len(mass) < 1:
        raise ValueError(
            f"weights has edges of shape {edges.shape} and weights of shape {mass.shape}. Give "
            "one edge more than bins."
        )
    if not (np.isfinite(edges).all() and (np.diff(edges) > 0).all()):
        raise ValueError("the edges of weights must be finite and rise.")
    if not (np.isfinite(mass).all() and (mass >= 0).all() and mass.sum() > 0):
        raise ValueError("the weights of bins must be finite, from 0 on, and not all 0.")
    return edges, mass / mass.sum()


def _grid(low: float, high: float) -> Array:
    """Points over an interval; where 0 lies in it, 0 is one of them."""
    grid = np.linspace(low, high, GRID)
    if low < 0 < high:
        grid[np.abs(grid).argmin()] = 0.0
    return grid


def tabulate(f: Any, interval: tuple[float, float] | None, need: int) -> Data:
    try:
        x, y = (floats(v) for v in f)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(
            f"f is {type(f).__name__}, neither a function nor a table. Pass a callable or a pair "
            "(x, y) of one-dimensional arrays of numbers."
        ) from None
    if x.ndim != 1 or x.shape != y.shape:
        raise ValueError(
            f"the table f has x of shape {x.shape} and y of shape {y.shape}. Both must be "
            "one-dimensional and of one length."
        )
    if not np.isfinite(x).all():
        i = int(np.flatnonzero(~np.isfinite(x))[0])
        raise ValueError(f"the table f has x[{i}]={x[i]}. Leave out what is not finite.")
    if interval is not None:
        low, high = check_interval(interval)
        inside = (x >= low) & (x <= high)
        x, y = x[inside], y[inside]
    order = np.argsort(x, kind="stable")
    x, y = x[order], y[order]
    distinct = len(np.unique(x))
    if distinct < max(need, 2):
        raise ValueError(
            f"the table f has {distinct} distinct x in the interval, but these degrees have "
            f"{need} coefficients. Give at least {max(need, 2)} samples or lower the degrees."
        )
    if interval is None:
        low, high = float(x[0]), float(x[-1])
    _check_values(x, y, "the table f has")
    some = np.unique(np.linspace(0, len(x) - 1, min(2 * NODES[0], len(x))).astype(int))
    mean = np.full(len(x), len(x) ** -0.5)
    levels = (x[some], y[some], mean[some]), (x, y, mean), (x, y, np.ones(len(x)))
    return Data((low, high), (low, high), levels)


def call(f: Function, x: Array, where: str = INSIDE) -> Array:
    """f at x: of an array if it takes one, else of a tensor."""
    failures = []
    if isinstance(f, type):
        raise TypeError(f"f is the class {f.__name__}. Pass an instance: {f.__name__}().")
    for argument, of in _calls(f, x):
        try:
            y = floats(of(argument))
        except Exception as error:
            failures.append(f"{type(argument).__name__}: {type(error).__name__}: {error}")
            continue
        if y.shape != x.shape:
            raise ValueError(
                f"f returns shape {y.shape} for x of shape {x.shape}. It must be elementwise."
            )
        _check_values(x, y, "f returns", where)
        return y
    raise TypeError(
        f"f={f!r} takes neither a tensor nor an array of float64 ({'; '.join(failures)}). "
        "Wrap it, e.g. numpy.vectorize(f)."
    )


def _calls(f: Any, x: Array) -> Iterator[tuple[Any, Function]]:
    """What f may take: an array, or where PyTorch is in use a tensor; a module in evaluation."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(f, torch.nn.Module):
        yield x.copy(), f
    if torch is not None:
        tensor, of = torch.tensor(x, device="cpu"), f
        if isinstance(f, torch.nn.Module):
            of = copy.deepcopy(f).eval()
            for p in of.parameters():
                if p.is_floating_point():
                    tensor = tensor.to(p)
                    break
        yield tensor, torch.no_grad()(of)


def _check_values(x: Array, y: Array, what: str, where: str = INSIDE) -> None:
    bad = np.flatnonzero(~np.isfinite(y))
    if len(bad):
        raise ValueError(f"{what} {y[bad[0]]} at x={x[bad[0]]:.6g}, {where}")


def check_interval(interval: Any) -> tuple[float, float]:
    try:
        low, high = (float(v) for v in interval)
    except (TypeError, ValueError):
        raise TypeError(
            f"interval={interval!r} must be a pair (low, high), e.g. (-3, 3)."
        ) from None
    if not (low < high and np.isfinite(high - low)):
        raise ValueError(
            f"interval=({low:g}, {high:g}) must be finite with low < high, e.g. (-3, 3)."
        )
    return low, high
