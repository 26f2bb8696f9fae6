"""Forwards, written anew where they call an activation."""
