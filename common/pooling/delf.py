"""Attention by a small network that scores each position."""

from __future__ import annotations

import tensorflow as tf
from tensorflow import keras

from common.ops.shapes import InputShape
from common.parameters import Count, PoolingArguments, Unpack, checked
from common.pooling.weighted_pooling import WeightedPooling, shares, weighted_mean


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class DeLFPooling(WeightedPooling):
    """Features weighted by a learned score (DeLF).

        pooled = (1/n) sum_j a_j f_j,    a_j = softplus( u.relu(V f_j + b) + b' )

    The scores do not see each other and are not divided by their sum: a network can scale its features by them. Exact
    gradient.

    Reference: thesis section 5.3.5 (v, DeLF); H. Noh, A. Araujo, J. Sim, T. Weyand, B. Han, "Large-scale image
    retrieval with attentive deep local features", 2017 (two 1 x 1 convolutions, the first with 512 filters). The
    paper sums where the published code, and this layer, average; the paper trains the scores after the features, the
    thesis with them.

    Head: the thesis pools first and then projects (`project_first=False`).

    Args:
        num_filters: outputs of V, at least 1.

    Input shape:
        `[batch, height, width, channels]` or `[batch, positions, channels]`; see `FeaturePooling`.

    Output shape:
        `[batch, channels]`, float32 (or float64).

    Raises:
        InvalidInput: `num_filters` is not positive.
    """

    @checked
    def __init__(self, num_filters: Count = 512, **kwargs: Unpack[PoolingArguments]) -> None:
        super().__init__(**kwargs)
        self.num_filters = int(num_filters)
        self.hidden = keras.layers.Dense(num_filters, activation="relu", dtype=self.dtype, name="hidden")
        self.score = keras.layers.Dense(1, activation="softplus", dtype=self.dtype, name="score")

    def build(self, input_shape: InputShape) -> None:
        self.hidden.build((None, None, self.num_channels(input_shape)))
        self.score.build((None, None, self.num_filters))
        super().build(input_shape)

    def call(self, features: tf.Tensor, mask: tf.Tensor | None = None, training: bool | None = None) -> tf.Tensor:
        features, mask = self.full_precision_positions(features, mask)
        return weighted_mean(self._scores(features), features, mask)

    def spatial_weights(self, features: tf.Tensor, mask: tf.Tensor | None = None) -> tf.Tensor:
        """Return each position's share `a_j / sum_l a_l`, `[batch, positions]`; see `WeightedPooling`."""
        features, mask = self.full_precision_positions(features, mask)
        return shares(self._scores(features), mask)

    def _scores(self, features: tf.Tensor) -> tf.Tensor:
        """Return the scores `[batch, positions]`."""
        return self.score(self.hidden(features))[..., 0]

    def compute_output_shape(self, input_shape: InputShape) -> tuple[int | None, ...]:
        return (input_shape[0], self.num_channels(input_shape))

    def get_config(self) -> dict:
        return {**super().get_config(), "num_filters": self.num_filters}
