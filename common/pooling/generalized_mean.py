"""The generalised mean: from the average to the maximum by one exponent."""

from __future__ import annotations

import tensorflow as tf
from tensorflow import keras

from common.ops.precision import in_full_precision
from common.ops.shapes import InputShape
from common.parameters import PoolingArguments, Positive, Unpack, checked
from common.pooling.feature_pooling import FeaturePooling
from common.pooling.position_counts import num_positions


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class GeneralizedMeanPooling(FeaturePooling):
    """The generalised mean over positions, channel by channel (GeM, the thesis' GeMean).

        pooled_c = ( (1/n) sum_j max(f_jc, floor)^p )^(1/p)

    p = 1 is the average of the positive values; the larger p, the nearer to the maximum. Evaluated as a log-sum-exp of
    `p log f`, so that no power overflows or vanishes. Exact gradient, for p too; features below the floor get none
    (they are the zeros of a ReLU).

    Reference: thesis section 5.3.5 (vii, GeMean); F. Radenovic, G. Tolias, O. Chum, "Fine-tuning CNN image retrieval
    with no human annotation", 2018, equation 3. One p for all channels, learned, starts at 3, as in the published code.

    Head: the thesis pools first and then projects (`project_first=False`), since p wants non-negative features.

    Args:
        power: p at the start, > 0.
        trainable_power: whether p is learned.
        floor: smallest value of a feature, > 0.

    Input shape:
        `[batch, height, width, channels]` or `[batch, positions, channels]`; see `FeaturePooling`.

    Output shape:
        `[batch, channels]`, float32 (or float64).

    Raises:
        InvalidInput: an argument is not positive.
    """

    @checked
    def __init__(
        self,
        power: Positive = 3.0,
        *,
        trainable_power: bool = True,
        floor: Positive = 1e-6,
        **kwargs: Unpack[PoolingArguments],
    ) -> None:
        super().__init__(**in_full_precision(kwargs))
        self.initial_power = float(power)
        self.trainable_power = bool(trainable_power)
        self.floor = float(floor)

    def build(self, input_shape: InputShape) -> None:
        self.power = self.add_weight(
            name="power",
            shape=(),
            initializer=keras.initializers.Constant(self.initial_power),
            trainable=self.trainable_power,
        )
        super().build(input_shape)

    def call(self, features: tf.Tensor, mask: tf.Tensor | None = None, training: bool | None = None) -> tf.Tensor:
        features, mask = self.positions_of(features, mask)
        features = tf.cast(features, self.compute_dtype)
        power = tf.convert_to_tensor(self.power)
        # Not tf.maximum: TFLite's default delegate cannot prepare one behind a convolution.
        floored = tf.where(features < self.floor, self.floor, features)
        log_powers = power * tf.math.log(floored)
        if mask is not None:
            log_powers = tf.where(mask[..., None], log_powers, -1e30)
        count = tf.maximum(num_positions(features, mask), 1.0)
        log_means = tf.reduce_logsumexp(log_powers, axis=1) - tf.math.log(count)
        if mask is not None:  # images without any position: kept away from the exponential, and 0
            some = tf.reduce_any(mask, axis=1, keepdims=True)
            return tf.where(some, tf.exp(tf.where(some, log_means, 0.0) / power), 0.0)
        return tf.exp(log_means / power)

    def compute_output_shape(self, input_shape: InputShape) -> tuple[int | None, ...]:
        return (input_shape[0], self.num_channels(input_shape))

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "power": self.initial_power,
            "trainable_power": self.trainable_power,
            "floor": self.floor,
        }
