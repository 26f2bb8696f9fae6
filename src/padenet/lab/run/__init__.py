"""One run, as a function that can be repeated and resumed."""
