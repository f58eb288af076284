"""One run of a fold and a seed: split, training, reading its folder."""
