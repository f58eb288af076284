"""Average and maximum over all positions."""

from __future__ import annotations

import tensorflow as tf
from tensorflow import keras

from common.ops.precision import at_least_float32
from common.ops.shapes import InputShape
from common.pooling.feature_pooling import FeaturePooling, masked_max, masked_mean


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class GlobalAveragePooling(FeaturePooling):
    """The mean over positions `(1/n) sum_j f_j`, summed in float32 at least. Exact gradient.

    Reference: thesis section 4.2 (the pooling that GSP generalises).

    Input shape:
        `[batch, height, width, channels]` or `[batch, positions, channels]`; see `FeaturePooling`.

    Output shape:
        `[batch, channels]`.
    """

    def call(self, features: tf.Tensor, mask: tf.Tensor | None = None, training: bool | None = None) -> tf.Tensor:
        features, mask = self.positions_of(features, mask)
        return tf.cast(masked_mean(at_least_float32(features), mask), features.dtype)

    def compute_output_shape(self, input_shape: InputShape) -> tuple[int | None, ...]:
        return (input_shape[0], self.num_channels(input_shape))


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class GlobalMaxPooling(FeaturePooling):
    """The maximum over positions of each channel; equal maxima share its gradient evenly.

    Reference: thesis section 5.3.5 (GMP).

    Input shape:
        `[batch, height, width, channels]` or `[batch, positions, channels]`; see `FeaturePooling`.

    Output shape:
        `[batch, channels]`.
    """

    def call(self, features: tf.Tensor, mask: tf.Tensor | None = None, training: bool | None = None) -> tf.Tensor:
        features, mask = self.positions_of(features, mask)
        return masked_max(features, mask)

    def compute_output_shape(self, input_shape: InputShape) -> tuple[int | None, ...]:
        return (input_shape[0], self.num_channels(input_shape))


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class GlobalAverageMaxPooling(FeaturePooling):
    """The sum of both: `(1/n) sum_j f_j + max_j f_j`.

    Reference: thesis section 5.3.5 (GAP+GMP), and the head of its conventional protocol.

    Input shape:
        `[batch, height, width, channels]` or `[batch, positions, channels]`; see `FeaturePooling`.

    Output shape:
        `[batch, channels]`.
    """

    def call(self, features: tf.Tensor, mask: tf.Tensor | None = None, training: bool | None = None) -> tf.Tensor:
        features, mask = self.positions_of(features, mask)
        average = masked_mean(at_least_float32(features), mask)
        return tf.cast(average, features.dtype) + masked_max(features, mask)

    def compute_output_shape(self, input_shape: InputShape) -> tuple[int | None, ...]:
        return (input_shape[0], self.num_channels(input_shape))
