"""Trained models as one file, from images to embeddings, without training data or code."""

from typing import TYPE_CHECKING

from common.lazy_names import import_when_used

if TYPE_CHECKING:
    from common.deployment.deployable_model import deployable_model as deployable_model, save_model as save_model
    from common.deployment.embedder import (
        Embedder as Embedder,
        load_embedder as load_embedder,
        loading_risk as loading_risk,
    )
    from common.deployment.embedding_normalization import EmbeddingNormalization as EmbeddingNormalization
    from common.deployment.image_preprocessing import ImagePreprocessing as ImagePreprocessing

import_when_used(__name__)
