"""Stored rows of runs and their scores."""
