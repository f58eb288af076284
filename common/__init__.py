"""Shared foundation: operations, losses, poolings, backbones, data, retrieval, training."""

from common.keras_classes import register_with_keras

PROJECT = "deep-metric-learning"  # another `common` has no such name
__version__ = "0.2.0"

register_with_keras()
