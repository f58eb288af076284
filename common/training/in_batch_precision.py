"""A retrieval metric of single batches, for Keras' `compile(metrics=[...])`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow import keras

from common.losses.class_ids import class_ids
from common.ops.distances import pairwise_inner_products
from common.ops.normalization import normalize
from common.ops.pair_masks import pair_masks


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class InBatchPrecision(keras.metrics.Metric):
    """P@1 inside each batch: how often the nearest other sample shares the class.

    A free sign of progress, but no retrieval metric: with few samples and classes in a batch it is far above P@1 on a
    data set, and it depends on the batch sampling. Samples without a partner of their class in the batch do not count.
    Cosine similarity; of equally near samples the first.

    Args:
        name: of the metric in the logs.
        **kwargs: `dtype`; see `keras.metrics.Metric`.

    Call arguments: class ids `[batch]` or `[batch, 1]` and embeddings `[batch, dim]`.
    """

    def __init__(self, name: str = "in_batch_P@1", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        self.num_hits = self.add_weight(name="num_hits", shape=(), initializer="zeros")
        self.num_queries = self.add_weight(name="num_queries", shape=(), initializer="zeros")

    def update_state(self, y_true: tf.Tensor, y_pred: tf.Tensor, sample_weight: None = None) -> None:
        """Add a batch."""
        del sample_weight
        embeddings = normalize(y_pred, "unit")
        positive, negative = pair_masks(class_ids(y_true)[0])
        lowest = tf.constant(-float("inf"), embeddings.dtype)
        others = tf.where(positive | negative, pairwise_inner_products(embeddings, embeddings), lowest)
        has_partner = tf.reduce_any(positive, axis=1)
        is_hit = has_partner & tf.gather(positive, tf.argmax(others, axis=1), batch_dims=1)
        self.num_hits.assign_add(tf.reduce_sum(tf.cast(is_hit, self.num_hits.dtype)))
        self.num_queries.assign_add(tf.reduce_sum(tf.cast(has_partner, self.num_queries.dtype)))

    def result(self) -> tf.Tensor:
        """Return the share of hits, a scalar in [0, 1].

        0 before any sample with a partner.
        """
        return tf.math.divide_no_nan(tf.convert_to_tensor(self.num_hits), tf.convert_to_tensor(self.num_queries))

    def reset_state(self) -> None:
        """Reset the metric, as Keras does in each epoch."""
        self.num_hits.assign(0.0)
        self.num_queries.assign(0.0)
