"""Analyses of finished runs and embeddings, besides the figures of their protocol."""
