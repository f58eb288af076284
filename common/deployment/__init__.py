"""Trained models as one file: images in, embeddings out, without the data or the code that trained them."""

import common.training.embedding_head  # noqa: F401
from common.deployment.deployable_model import deployable_model, save_model
from common.deployment.embedder import Embedder, load_embedder
from common.deployment.embedding_normalization import EmbeddingNormalization
from common.deployment.image_preprocessing import ImagePreprocessing
from common.lazy_names import import_names

# A model's layers are from these, and Keras finds a layer once its module has been imported.
import_names("common.backbones", "common.pooling")

__all__ = [
    "Embedder",
    "EmbeddingNormalization",
    "ImagePreprocessing",
    "deployable_model",
    "load_embedder",
    "save_model",
]
