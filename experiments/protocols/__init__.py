"""Runs that are evaluated together: folds, repeats, splits, and their reports."""
