"""Forwards, read without being run: their source, and the values that flow through it."""
