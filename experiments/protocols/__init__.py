"""Jointly evaluated runs: folds, repeats, splits, and their reports."""
