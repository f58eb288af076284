"""Trained models as one file, from images to embeddings, without training data or code."""

from typing import TYPE_CHECKING

from common.lazy_names import import_when_used

if TYPE_CHECKING:
    from common.deployment.deployable_model import deployable_model, save_model
    from common.deployment.embedder import Embedder, load_embedder, loading_risk
    from common.deployment.embedding_normalization import EmbeddingNormalization
    from common.deployment.image_preprocessing import ImagePreprocessing

__all__ = [
    "Embedder",
    "EmbeddingNormalization",
    "ImagePreprocessing",
    "deployable_model",
    "load_embedder",
    "loading_risk",
    "save_model",
]
import_when_used(__name__)
