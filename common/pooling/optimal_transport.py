"""One pooled feature per prototype, by balanced transport from positions to prototypes."""

from __future__ import annotations

import tensorflow as tf
from tensorflow import keras

from common.ops.distances import pairwise_distances
from common.ops.normalization import normalize
from common.ops.shapes import InputShape
from common.ops.sinkhorn import balanced_transport_plan
from common.parameters import Count, PoolingArguments, Positive, Unpack, checked
from common.pooling.position_counts import num_positions
from common.pooling.weighted_pooling import WeightedPooling, shares


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class OptimalTransportPooling(WeightedPooling):
    """Concatenated averages of the features that optimal transport gives to each prototype (OTP).

        pooled = sqrt(m) [ sum_j P_1j f_j, ..., sum_j P_mj f_j ]
        P = balanced transport from m prototypes (1/m each) to n positions (1/n each), costs || clip(w_i) - clip(f_j) ||

    with clip(v) = v / max(1, ||v||). Transport is balanced: every position is pooled with weight 1/n whatever it shows,
    so this pooling describes the distribution of the features and cannot leave any of them out. Exact gradient, through
    the Sinkhorn iterations.

    Reference: thesis section 5.3.5 (ix, OTP, 8 x 16 and 64 x 128: prototypes x channels of a feature); G. Mialon,
    D. Chen, A. d'Aspremont, J. Mairal, "A trainable optimal transport embedding for feature aggregation and its
    relationship to attention", 2021 (costs there are negative kernel values, features are kernel embeddings).
    Distances, clipping, 10 iterations and smoothing 2 as in the published code, which starts its prototypes from a
    feature memory as GSP does, and until that is full returns the average, padded with zeros.

    Head: project first, to the channels of a feature. 8 x 16 (128 dimensions):
    `EmbeddingHead(OptimalTransportPooling(8), 16, project_first=True)`; 64 x 128 (8,192 dimensions):
    `EmbeddingHead(OptimalTransportPooling(64), 128, project_first=True)`.

    Args:
        num_prototypes: m, at least 1.
        smoothing: inverse of the weight of the entropy, > 0.
        num_iterations: of Sinkhorn, at least 1.
        prototype_initializer: a Keras initializer (a `Constant` for given vectors `[prototypes, channels]`).
        prototype_regularizer, prototype_constraint: of the prototypes, as of the weights of any Keras layer.

    Input shape:
        `[batch, height, width, channels]` or `[batch, positions, channels]`; see `FeaturePooling`.

    Output shape:
        `[batch, prototypes * channels]`, prototype by prototype, float32 (or float64).

    Raises:
        InvalidInput: an argument is not positive.
    """

    @checked
    def __init__(
        self,
        num_prototypes: Count = 8,
        *,
        smoothing: Positive = 2.0,
        num_iterations: Count = 10,
        prototype_initializer: str | dict | keras.initializers.Initializer = "glorot_uniform",
        prototype_regularizer: str | dict | keras.regularizers.Regularizer | None = None,
        prototype_constraint: str | dict | keras.constraints.Constraint | None = None,
        **kwargs: Unpack[PoolingArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.num_prototypes = int(num_prototypes)
        self.smoothing = float(smoothing)
        self.num_iterations = int(num_iterations)
        self.prototype_initializer = keras.initializers.get(prototype_initializer)
        self.prototype_regularizer = keras.regularizers.get(prototype_regularizer)
        self.prototype_constraint = keras.constraints.get(prototype_constraint)

    def build(self, input_shape: InputShape) -> None:
        self.prototypes = self.add_weight(
            name="prototypes",
            shape=(self.num_prototypes, self.num_channels(input_shape)),
            initializer=self.prototype_initializer,
            regularizer=self.prototype_regularizer,
            constraint=self.prototype_constraint,
            trainable=True,
        )
        super().build(input_shape)

    def call(self, features: tf.Tensor, mask: tf.Tensor | None = None, training: bool | None = None) -> tf.Tensor:
        features, mask = self.full_precision_positions(features, mask)
        pooled = tf.matmul(self._plan(features, mask), features)  # [batch, prototypes, channels]
        return self.num_prototypes**0.5 * tf.reshape(pooled, [-1, self.num_prototypes * features.shape[-1]])

    def spatial_weights(self, features: tf.Tensor, mask: tf.Tensor | None = None) -> tf.Tensor:
        """Return the uniform masses `sum_i P_ij`, `[batch, positions]`; see `WeightedPooling`."""
        features, mask = self.full_precision_positions(features, mask)
        return shares(tf.reduce_sum(self._plan(features, mask), axis=1), mask)

    def _plan(self, features: tf.Tensor, mask: tf.Tensor | None) -> tf.Tensor:
        """Return P `[batch, prototypes, positions]`; no mass at padding."""
        prototypes = normalize(tf.convert_to_tensor(self.prototypes), "clip")
        rows = tf.tile(prototypes[None], [tf.shape(features)[0], 1, 1])
        costs = pairwise_distances(rows, normalize(features, "clip"))
        if mask is None:
            return balanced_transport_plan(costs, self.smoothing, self.num_iterations)
        some = tf.reduce_any(mask, axis=1, keepdims=True)
        mask |= ~some  # an image without any position: solved like any other, and zeroed afterwards
        mass = tf.cast(mask, costs.dtype) / num_positions(features, mask)
        plan = balanced_transport_plan(costs, self.smoothing, self.num_iterations, column_mass=mass)
        return tf.where(some[..., None], plan, 0.0)

    def compute_output_shape(self, input_shape: InputShape) -> tuple[int | None, ...]:
        return (input_shape[0], self.num_prototypes * self.num_channels(input_shape))

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "num_prototypes": self.num_prototypes,
            "smoothing": self.smoothing,
            "num_iterations": self.num_iterations,
            "prototype_initializer": keras.initializers.serialize(self.prototype_initializer),
            "prototype_regularizer": keras.regularizers.serialize(self.prototype_regularizer),
            "prototype_constraint": keras.constraints.serialize(self.prototype_constraint),
        }
