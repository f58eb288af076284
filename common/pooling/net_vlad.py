"""Residuals to learned centers, softly assigned and concatenated."""

from __future__ import annotations

import tensorflow as tf
from tensorflow import keras

from common.ops.normalization import normalize
from common.ops.shapes import InputShape
from common.parameters import Count, PoolingArguments, Unpack, checked
from common.pooling.weighted_pooling import WeightedPooling, shares


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class NetVLADPooling(WeightedPooling):
    """Sums of residuals to the centers of clusters, with soft assignment of features (NetVLAD).

        pooled = v / ||v||,   v = [ V_1 / ||V_1||, ..., V_K / ||V_K|| ]
        V_k = sum_j a_jk (f_j - c_k),   a_j = softmax_k( w_k.f_j + b_k )

    Centers, w and b are trained independently of each other. The assignments of a position sum to one, so every
    position takes part with the same weight. Exact gradient; zero, not NaN, where a residual is zero. No tensor of size
    positions x clusters x channels is made.

    Reference: thesis section 5.3.5 (xii, NetVLAD, 8 x 16 and 64 x 128: clusters x channels of a feature);
    R. Arandjelovic, P. Gronat, A. Torii, T. Pajdla, J. Sivic, "NetVLAD: CNN architecture for weakly supervised place
    recognition", 2016, equation 4 with intra-normalisation and the final normalisation. The published code leaves the
    final one out: it only scales by sqrt(K), which unit-normalised embeddings do not see. The paper starts from k-means
    over local features, the published code from Glorot uniform values, as here.

    Head: project first, to the channels of a feature. 8 x 16 (128 dimensions):
    `EmbeddingHead(NetVLADPooling(8), 16, project_first=True)`; 64 x 128 (8,192 dimensions):
    `EmbeddingHead(NetVLADPooling(64), 128, project_first=True)`.

    Args:
        num_clusters: K, at least 1.
        center_regularizer, center_constraint: of the centers c, as of the weights of any Keras layer.

    Input shape:
        `[batch, height, width, channels]` or `[batch, positions, channels]`; see `FeaturePooling`.

    Output shape:
        `[batch, clusters * channels]`, cluster by cluster, float32 (or float64).

    Raises:
        InvalidInput: `num_clusters` is not positive.
    """

    @checked
    def __init__(
        self,
        num_clusters: Count = 8,
        *,
        center_regularizer: str | dict | keras.regularizers.Regularizer | None = None,
        center_constraint: str | dict | keras.constraints.Constraint | None = None,
        **kwargs: Unpack[PoolingArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.num_clusters = int(num_clusters)
        self.center_regularizer = keras.regularizers.get(center_regularizer)
        self.center_constraint = keras.constraints.get(center_constraint)
        self.assignment = keras.layers.Dense(self.num_clusters, dtype=self.dtype, name="assignment")

    def build(self, input_shape: InputShape) -> None:
        channels = self.num_channels(input_shape)
        self.assignment.build((None, None, channels))
        self.centers = self.add_weight(
            name="centers",
            shape=(self.num_clusters, channels),
            initializer="glorot_uniform",
            regularizer=self.center_regularizer,
            constraint=self.center_constraint,
            trainable=True,
        )
        super().build(input_shape)

    def call(self, features: tf.Tensor, mask: tf.Tensor | None = None, training: bool | None = None) -> tf.Tensor:
        features, mask = self.full_precision_positions(features, mask)
        assignments = self._assignments(features, mask)
        totals = tf.reduce_sum(assignments, axis=1)[..., None] * tf.convert_to_tensor(self.centers)
        residuals = tf.matmul(assignments, features, transpose_a=True) - totals  # [batch, clusters, channels]
        residuals = tf.reshape(normalize(residuals, "unit"), [-1, self.num_clusters * features.shape[-1]])
        return normalize(residuals, "unit")

    def spatial_weights(self, features: tf.Tensor, mask: tf.Tensor | None = None) -> tf.Tensor:
        """Return the uniform share `sum_k a_jk / n`, `[batch, positions]`; see `WeightedPooling`."""
        features, mask = self.full_precision_positions(features, mask)
        return shares(tf.reduce_sum(self._assignments(features, mask), axis=-1), mask)

    def _assignments(self, features: tf.Tensor, mask: tf.Tensor | None) -> tf.Tensor:
        """Return the assignments `[batch, positions, clusters]`; 0 at padding."""
        assignments = tf.nn.softmax(self.assignment(features))
        return assignments if mask is None else tf.where(mask[..., None], assignments, 0.0)

    def compute_output_shape(self, input_shape: InputShape) -> tuple[int | None, ...]:
        return (input_shape[0], self.num_clusters * self.num_channels(input_shape))

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "num_clusters": self.num_clusters,
            "center_regularizer": keras.regularizers.serialize(self.center_regularizer),
            "center_constraint": keras.constraints.serialize(self.center_constraint),
        }
