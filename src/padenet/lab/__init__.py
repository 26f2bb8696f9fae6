"""The lab: from data sets and recipes over recorded runs to reports, by the library's public names.

From the bottom up, and imports point down:

records/  what a run is, what was recorded of it, and the files that hold it
data/     data sets by name: fetch, load, order, augment
nets/     the networks of the paper, and small ones, with any activation
run/      one run, as a function that can be repeated and resumed
prune/    lottery tickets: train, prune, rewind, train again
sweep/    many runs: which, where, and how far they are
report/   recorded runs to tables, figures and a page; it knows nothing of training

The ``__init__.py`` of each says which file is for what.
"""
