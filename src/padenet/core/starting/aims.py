"""What a fit is for: where F has to be close to f, and what that may cost.

    wide     close on the interval, and not far off up to 10/3 of its reach
    near     as close as possible on the interval, wherever F goes beyond
    steady   close on the interval with b_n >= 0.3, which trains best

A fit minimises the mean of (F - f)² over the interval and, for ``wide``, ``beyond`` times as much
of each unit of length outside. Of all optima that were found the least error wins, with two
exceptions, which keep F in hand where nothing was weighed: an error counts ``stray`` times if A
has a zero beyond the interval, where Q falls back to q and F shoots up; and Q with even powers
only is taken up to ``simpler`` times the error of the best.
"""

import math
from typing import NamedTuple

from padenet.core.support.names import unknown

REACH = 10 / 3  # of the half width of the interval


class Aim(NamedTuple):
    """``least`` is a bound of the last b from below, ``most`` one of all |b| from above."""

    beyond: float = 0.0
    least: float = 0.0
    most: float = math.inf
    stray: float = 1.0
    simpler: float = 1.001


AIMS = {
    "wide": Aim(beyond=0.03, stray=100.0, simpler=1.15),
    "near": Aim(),
    "steady": Aim(least=0.3, most=10.0, stray=100.0, simpler=1.15),
}

WEIGHTED = Aim(stray=100.0, simpler=1.15)
"""Of a fit to a histogram, which says itself what counts."""


def find_aim(name: str) -> Aim:
    if name not in AIMS:
        raise unknown("aim", name, AIMS)
    return AIMS[name]


def reach(interval: tuple[float, float]) -> tuple[float, float]:
    """What ``wide`` looks at: (-10, 10) for (-3, 3)."""
    low, high = interval
    middle, half = (low + high) / 2, (high - low) / 2
    return middle - REACH * half, middle + REACH * half
