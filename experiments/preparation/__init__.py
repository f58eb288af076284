"""Preparation of runs: data sets, and converted or pre-trained weights."""
