"""One training of a fold and repeat, and what can be read from it."""
