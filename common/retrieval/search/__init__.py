"""The engine of exact retrieval: float32 proposes, float64 decides.

`common.retrieval` is its public interface.
"""
