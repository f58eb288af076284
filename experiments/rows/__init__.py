"""Stored rows and their scores: the one container that everything reads."""
