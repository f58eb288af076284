"""Measurements against peers and limits, one command each.

README.md has the last figures.
"""
