"""Deployable models of one convolution, and of tokens."""

import tensorflow as tf

from common.backbones import token_embedding
from common.deployment import ImagePreprocessing, deployable_model
from common.pooling import GlobalAveragePooling
from common.training import EmbeddingHead
from gsp_dml import GeneralizedSumPooling
from tests.experiments.tiny_network import tiny_network

keras = tf.keras
SIZE, DIM = 16, 4


def of_images(channels=3, *, crop="center", normalization="unit", backbone=None, pooling=None):
    """The model, and its backbone and head."""
    backbone = backbone or tiny_network(channels)
    head = EmbeddingHead(pooling or GlobalAveragePooling(), DIM)
    preprocessing = ImagePreprocessing(SIZE, crop, name="preprocessing")
    parts = {"normalization": normalization, "preprocessing": preprocessing, "input_shape": (SIZE, SIZE, channels)}
    return deployable_model(backbone, head, **parts), backbone, head


def of_tokens():
    head = EmbeddingHead(GeneralizedSumPooling(2, return_attributes=True), None)
    return deployable_model(token_embedding(9, DIM), head, normalization="unit", preprocessing=None, input_shape=(6,))
