"""Many runs: which, where, and how far they are.

recipes.py   the paper's protocols, as lists of records; frontier.py: a map of where units train
finding.py   the runs of a recipe or of a user's file
checks.py    what is refused before any work
sweep.py     all runs of a recipe, until they are done or the time is up
jobs.py      several at once on one machine: in processes, or on a GPU by turns.py
cluster.py   the same on a Ray cluster
outcome.py   how a run ended
status.py    where each run stands, and what they gave
estimate.py  how long the rest takes
"""
