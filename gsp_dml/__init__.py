"""Generalized sum pooling (GSP) and the zero-shot prediction loss that trains its prototypes."""

from gsp_dml.generalized_sum_pooling import GeneralizedSumPooling
from gsp_dml.partial_transport import Transport, partial_transport, weight_perplexity

__all__ = ["GeneralizedSumPooling", "Transport", "partial_transport", "weight_perplexity"]
