"""Shared foundation: operations, losses, poolings, backbones, data, retrieval, training."""

from common.keras_classes import register_with_keras

PROJECT = "deep-metric-learning"  # lets the other packages tell this one from another `common`
__version__ = "0.1.0"

register_with_keras()
