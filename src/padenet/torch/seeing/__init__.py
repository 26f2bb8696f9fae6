"""Units to look at: found, counted, followed over a training, and drawn.

finding.py   the units of models, checkpoints and the stored starts
inputs.py    where their inputs lie
history.py   their coefficients over a training
drawing.py   ``plot``: the units of a model
fits.py      a fit beside its target, and all stored starts
style.py     colours, grids and files

Figures stand on matplotlib's objects, without its global state; no window is opened.
"""
