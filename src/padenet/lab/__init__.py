"""Experiments: from data sets and recipes over recorded runs to reports.

data/         data sets: fetch, load, order, augment
nets/         the networks of the paper, with any activation
config.py     what a run is, as one frozen record
recipes.py    the paper's protocols, as lists of such records
batches.py    batches of a data set on a device
learner.py    net, optimiser and data of a run: an epoch
graphs.py     a training step as a CUDA graph
ranks.py      the processes that share a run
progress.py   a run as it goes, on the terminal
run.py        a run as one function that can be repeated and continued
device.py     the device, torch's switches
machine.py    machine, versions and commit
store.py      the directory of a run, and runs packed into one file
turns.py      several runs in one process, a step each in turn
jobs.py       many runs at once on one machine
outcome.py    how a run among others ended
sweep.py      all runs of a recipe, and where each stands
estimate.py   how long they will take
cluster.py    the same on a Ray cluster
lottery*.py   train, prune, rewind, train again; costs; table and figure
packing.py    runs of several places as one
report/       recorded runs to tables, figures and a page
"""
