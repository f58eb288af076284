"""Deployable models of one convolution, and of tokens."""

import importlib.util

import pytest
import tensorflow as tf

from common.backbones import token_embedding
from common.deployment import ImagePreprocessing, deployable_model
from common.pooling import GlobalAveragePooling
from common.training import EmbeddingHead
from tests.experiments.tiny_network import tiny_network

keras = tf.keras
SIZE, DIM = 16, 4
HAS_ONNX = tf.__version__ >= "2.16" and all(map(importlib.util.find_spec, ("onnx", "tf2onnx", "onnxruntime")))
needs_onnx = pytest.mark.skipif(not HAS_ONNX, reason="needs Keras 3 and the extra onnx")


def of_images(channels=3, *, crop="center", normalization="unit", backbone=None, pooling=None):
    """The model, and its backbone and head."""
    backbone = backbone or tiny_network(channels)
    head = EmbeddingHead(pooling or GlobalAveragePooling(), DIM)
    preprocessing = ImagePreprocessing(SIZE, crop, name="preprocessing")
    parts = {"normalization": normalization, "preprocessing": preprocessing, "input_shape": (SIZE, SIZE, channels)}
    return deployable_model(backbone, head, **parts), backbone, head


def of_tokens():
    head = EmbeddingHead(GlobalAveragePooling(), None)
    return deployable_model(token_embedding(9, DIM), head, normalization="unit", preprocessing=None, input_shape=(6,))
