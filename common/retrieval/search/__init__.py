"""The engine of exact retrieval: float32 products propose, float64 decides. Its public face is `common.retrieval`."""
