"""One run of a fold and repeat, and reading its folder."""
