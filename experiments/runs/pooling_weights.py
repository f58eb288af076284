"""A trained model's pooling weights over positions, and their share on a collage's target."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from common import training
from common.data import Examples
from common.errors import InvalidInput, check_given
from common.progress import progress_bar
from gsp_dml.attention_maps import box_coverage, coverage_auc, target_share, weighted_feature_norm

if TYPE_CHECKING:
    import tensorflow as tf


class PoolingWeights(NamedTuple):
    """The pooling of some images."""

    weights: np.ndarray  # pooling weights, `[examples, positions]`, each row with sum one
    norms: np.ndarray  # shares of the weighted features' lengths (`weighted_feature_norm`), likewise
    map_shape: tuple[int, ...]  # rows and columns of the feature map


def has_weights(pooling) -> bool:
    """Check that a pooling has position weights (uniform ones, too)."""
    from common.pooling import GlobalAveragePooling, WeightedPooling

    return isinstance(pooling, (WeightedPooling, GlobalAveragePooling))


def pooling_weights_of(model: training.EmbeddingModel, batches: tf.data.Dataset) -> PoolingWeights:
    """Compute the pooling weights of images, and the shares of their weighted features' lengths."""
    from gsp_dml.perplexity_callback import pooled_features

    pooling = model.head.pooling
    if not has_weights(pooling):
        raise InvalidInput(f"{type(pooling).__name__} gives positions no weights, so there is nothing to see.")
    weights, norms = [], []
    map_shape: tuple[int, ...] = ()
    for inputs in progress_bar(batches, desc="pooling weights", unit="batch", leave=False):
        batch_features, map_shape = pooled_features(model, inputs)
        weights.append(_weights(pooling, batch_features, map_shape))
        norms.append(weighted_feature_norm(weights[-1], batch_features))
    return PoolingWeights(np.concatenate(weights), np.concatenate(norms), map_shape)


def _weights(pooling, features, map_shape) -> np.ndarray:
    import tensorflow as tf

    from common.pooling import GlobalAveragePooling

    if isinstance(pooling, GlobalAveragePooling):
        return np.full(features.shape[:2], 1 / features.shape[1])
    maps = tf.reshape(features, [tf.shape(features)[0], *map_shape, features.shape[-1]])
    return np.asarray(pooling.spatial_weights(maps))


def target_shares(
    model: training.EmbeddingModel, examples: Examples, batches: tf.data.Dataset
) -> dict[str, float] | None:
    """Return targets' mean share of weight and of weighted norm.

    By chance both are .25 for the tile of a collage, and `area_of_target` for a box. Boxes also have the area under the
    ROC curve of both over an image's positions. None for data without known targets and poolings without weights.

    Args:
        examples: images in memory whose `positions` name the target's tile, or whose `boxes` surround it.
    """
    if not has_weights(model.head.pooling):
        return None
    if examples.positions is None and (examples.boxes is None or examples.inputs is None):
        return None
    pooled = pooling_weights_of(model, batches)
    values = {"weight": pooled.weights, "norm": pooled.norms}
    if examples.positions is not None:
        height, width = pooled.map_shape
        shares = {of: target_share(each, examples.positions, (height, width)) for of, each in values.items()}
        return {f"{of}_on_target": float(share.mean()) for of, share in shares.items()}
    coverage = box_coverage(check_given("boxes", examples.boxes), examples.arrays.shape[1:3], pooled.map_shape)
    figures = {"area_of_target": coverage.mean(axis=1)}
    for of, each in values.items():
        figures |= {f"{of}_on_target": (each * coverage).sum(axis=1), f"{of}_auc": coverage_auc(each, coverage)}
    return {name: float(np.nanmean(figure)) for name, figure in figures.items()}
