"""Deployable models from finished runs: formats, cards, and the final model."""
