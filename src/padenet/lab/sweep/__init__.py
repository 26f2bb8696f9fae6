"""Many runs: which, where, and how far they are.

recipes/     which runs: the paper's protocols and tables, and files of the user
checks.py    what is refused before any work
sweep.py     all of them, until they are done or the time is up
jobs.py      several at once on one machine: in processes, or on a GPU by turns.py
cluster.py   the same on a Ray cluster
outcome.py   how a run ended
status.py    where each run stands, and what they gave
estimate.py  how long the rest takes
"""
