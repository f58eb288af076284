"""Preparation of runs: data sets made ready, and weights converted or trained beforehand."""
