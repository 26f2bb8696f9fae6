"""Lottery tickets: train, prune, rewind, train again.

lottery.py  the stages, each a run of its own
costs.py    what a net costs to keep and to use
"""
