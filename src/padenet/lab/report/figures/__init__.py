"""The figures of a report. A new one is a module here and an entry of the list.

picture.py  a figure with its heading, caption and name
curves.py   learning curves
learned.py  learned activations, and their coefficients by epoch
pruning.py  accuracy of pruned nets
"""

from collections.abc import Callable, Iterator

from padenet.lab.report.cells import Cell
from padenet.lab.report.figures.curves import curve_pictures
from padenet.lab.report.figures.learned import unit_pictures
from padenet.lab.report.figures.picture import Picture
from padenet.lab.report.figures.pruning import pruning_pictures

FIGURES: list[Callable[[list[Cell]], Iterator[Picture]]] = [
    pruning_pictures,
    curve_pictures,
    unit_pictures,
]


def make_pictures(cells: list[Cell]) -> Iterator[Picture]:
    """One at a time: a figure is large."""
    for pictures_of in FIGURES:
        yield from pictures_of(cells)
