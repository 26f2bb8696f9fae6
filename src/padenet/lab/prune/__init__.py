"""Lottery tickets: train, prune, rewind, train again."""
