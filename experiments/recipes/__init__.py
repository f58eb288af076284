"""Recipes: from the words of a command line to a configuration, one function each."""

from experiments.recipes.resolution import departures, draft_of, resolve, unused_overrides

__all__ = ["departures", "draft_of", "resolve", "unused_overrides"]
