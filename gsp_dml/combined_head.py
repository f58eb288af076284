"""GSP with the maximum or the generalised mean: the papers' GMP+GSP and GeMean+GSP."""

from __future__ import annotations

from typing import Literal

import tensorflow as tf
from tensorflow import keras

from common.ops.precision import in_full_precision
from common.ops.shapes import InputShape
from common.parameters import Count, LayerArguments, Unpack, checked
from common.pooling import GeneralizedMeanPooling, GlobalMaxPooling
from common.pooling.position_counts import num_positions
from gsp_dml.generalized_sum_pooling import GeneralizedSumPooling


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class CombinedSumHead(keras.layers.Layer):
    """Pooling and projection by one linear map W, shared with a second aggregation.

        max                embedding = sum_j p_j W f_j + W max_j f_j
        generalized_mean   embedding = W [ (1/n) sum_j max(n p_j f_j, 1e-6)^q ]^(1/q)

    The weights p solve the transport problem of `pooling` for the projected features W f_j (prototypes live in the
    embedding space); the maximum and the generalised mean (q learned, starts at 3) are over the features f_j of the
    backbone, as they want values behind a ReLU. With p = 1/n these are GAP+GMP and GeMean.

    Reference: thesis section 5.3.5, figure 5.12 (GMP+GSP); ICCV 2023 table 2 (GMP+GSP, GeMean+GSP); formulas from the
    published code (`augment_max_pool`, `use_gemp`). Exact gradient, except for the transport's closed form.

    Args:
        pooling: gives the weights; its attributes are returned too.
        embedding_dim: rows of W, at least 1.
        aggregation: "max" or "generalized_mean".

    Call arguments:
        features: see below.
        mask: boolean `[batch, positions]` (or `[batch, height, width]`), False for padding; or None.
        training: collect features for the prototypes.

    Input shape:
        `[batch, height, width, channels]` (or channels first, as `pooling` says) or `[batch, positions, channels]`.

    Output shape:
        A dictionary in float32 (or float64): `embeddings` `[batch, embedding_dim]`, `attributes` `[batch, prototypes]`.

    Examples:
        >>> head = CombinedSumHead(GeneralizedSumPooling(8, prototype_initializer="random"), 16, aggregation="max")
        >>> head(tf.random.normal([4, 7, 7, 128]))["embeddings"].shape
        TensorShape([4, 16])
    """

    project_first = True  # what `pooling` looks at are projected features

    @checked
    def __init__(
        self,
        pooling: GeneralizedSumPooling,
        embedding_dim: Count,
        *,
        aggregation: Literal["max", "generalized_mean"],
        **kwargs: Unpack[LayerArguments],
    ) -> None:
        super().__init__(**in_full_precision(kwargs))  # the projection alone follows a policy of half precision
        self.pooling = pooling
        self.pooling.return_attributes = True
        self.embedding_dim = int(embedding_dim)
        self.aggregation = aggregation
        self.second_pooling = GlobalMaxPooling() if aggregation == "max" else GeneralizedMeanPooling()
        options = {"dtype": kwargs.get("dtype"), "name": "projection"}
        self.projection = keras.layers.Dense(embedding_dim, use_bias=False, **options)
        self.supports_masking = True

    def build(self, input_shape: InputShape) -> None:
        channels = self.pooling.num_channels(input_shape)
        self.projection.build((None, channels))
        if not self.pooling.built:
            self.pooling.build((None, None, self.embedding_dim))
        if not self.second_pooling.built:
            self.second_pooling.build((None, None, channels))
        super().build(input_shape)

    def call(
        self, features: tf.Tensor, mask: tf.Tensor | None = None, training: bool | None = None
    ) -> dict[str, tf.Tensor]:
        training = training and self.trainable
        features, mask = self.pooling.full_precision_positions(features, mask)
        projected, _ = self.pooling.full_precision_positions(self.projection(features), mask)
        has_prototypes = self.pooling.collect(projected, mask, training)
        transport = self.pooling.transport(projected, mask, has_prototypes)
        if self.aggregation == "max":
            weighted_sum = tf.linalg.matvec(projected, transport.weights, transpose_a=True)
            maximum = self.projection(self.second_pooling(features, mask=mask))
            embeddings = weighted_sum + tf.cast(maximum, weighted_sum.dtype)
        else:
            weighted = features * (num_positions(features, mask) * transport.weights)[..., None]
            embeddings = tf.cast(self.projection(self.second_pooling(weighted, mask=mask)), weighted.dtype)
        embeddings = self.pooling.with_warning(embeddings, training)
        return {"embeddings": embeddings, "attributes": transport.attributes}

    def compute_mask(self, inputs: tf.Tensor, mask: tf.Tensor | None = None) -> None:
        """Return no mask: the positions are gone after pooling."""
        del inputs, mask

    def compute_output_shape(self, input_shape: InputShape) -> dict[str, tuple[int | None, ...]]:
        batch = input_shape[0]
        return {"embeddings": (batch, self.embedding_dim), "attributes": (batch, self.pooling.num_prototypes)}

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "dtype": self.projection.get_config()["dtype"],
            "pooling": keras.layers.serialize(self.pooling),
            "embedding_dim": self.embedding_dim,
            "aggregation": self.aggregation,
        }

    @classmethod
    def from_config(cls, config: dict) -> CombinedSumHead:
        config = dict(config)
        config["pooling"] = keras.layers.deserialize(config["pooling"])
        return cls(**config)
