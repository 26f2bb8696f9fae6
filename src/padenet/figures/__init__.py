"""Figures of units: on matplotlib's objects, without its global state; no window is opened.

style.py    colours, grids and files
units.py    ``plot``: the units of a model
fits.py     a fit beside its target, and all stored starts
"""

from padenet.figures.fits import plot_fit, plot_starts
from padenet.figures.style import save
from padenet.figures.units import plot

__all__ = ["plot", "plot_fit", "plot_starts", "save"]
