"""What the values of a forward are: formulas, hidden units, gates, tokens, and what is unknown."""
