"""Features that look at each other before they are pooled."""

from __future__ import annotations

import tensorflow as tf
from tensorflow import keras

from common.ops.precision import in_full_precision
from common.ops.shapes import InputShape
from common.parameters import Count, PoolingArguments, Unpack, checked
from common.pooling.feature_pooling import FeaturePooling
from common.pooling.generalized_mean import GeneralizedMeanPooling


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class SecondOrderAttentionPooling(FeaturePooling):
    """Self-attention with a residual, then the generalised mean (SOLAR's second-order attention).

        g_j = f_j + O sum_l a_jl V f_l,    a_j = softmax_l( q_j.k_l / sqrt(d) ),    q, k = relu(batch norm(linear(f)))
        pooled = generalised mean of g over positions

    q, k and V f have d = channels / reduction entries; all linear maps have a bias. Exact gradient. Batch normalisation
    uses batch statistics when `training` is true, and skips masked positions.

    Reference: thesis section 5.3.5 (x, SOLAR); T. Ng, V. Balntas, Y. Tian, K. Mikolajczyk, "SOLAR: second-order loss
    and attention for image retrieval", 2020. The paper's own implementation starts O at zero, so that the layer starts
    as the generalised mean and a pre-trained backbone is not disturbed; that is the default here. The published code of
    the thesis starts it from Glorot uniform values (`output_initializer="glorot_uniform"`). Its reduction is 1.

    Head: the thesis pools first and then projects (`project_first=False`).

    Args:
        channel_reduction: channels of the input for one of q, k and v, at least 1.
        power: of the generalised mean at the start; see `GeneralizedMeanPooling`.
        trainable_power: whether that is learned.
        output_initializer: of O, a Keras initializer.

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
        channel_reduction: Count = 1,
        *,
        power: float = 3.0,
        trainable_power: bool = True,
        output_initializer: str | dict | keras.initializers.Initializer = "zeros",
        **kwargs: Unpack[PoolingArguments],
    ) -> None:
        super().__init__(**in_full_precision(kwargs))
        self.channel_reduction = int(channel_reduction)
        self.output_initializer = keras.initializers.get(output_initializer)
        self.generalized_mean = GeneralizedMeanPooling(
            power, trainable_power=trainable_power, dtype=self.dtype, name="generalized_mean"
        )
        self.query_normalization = keras.layers.BatchNormalization(dtype=self.dtype, name="query_normalization")
        self.key_normalization = keras.layers.BatchNormalization(dtype=self.dtype, name="key_normalization")

    def build(self, input_shape: InputShape) -> None:
        channels = self.num_channels(input_shape)
        width = max(channels // self.channel_reduction, 1)
        self.query = keras.layers.Dense(width, dtype=self.dtype, name="query")
        self.key = keras.layers.Dense(width, dtype=self.dtype, name="key")
        self.value = keras.layers.Dense(width, dtype=self.dtype, name="value")
        self.attended = keras.layers.Dense(
            channels, kernel_initializer=self.output_initializer, dtype=self.dtype, name="attended"
        )
        for layer in (self.query, self.key, self.value, self.generalized_mean):
            layer.build((None, None, channels))
        for layer in (self.query_normalization, self.key_normalization, self.attended):
            layer.build((None, None, width))
        super().build(input_shape)

    def call(self, features: tf.Tensor, mask: tf.Tensor | None = None, training: bool | None = None) -> tf.Tensor:
        training = training and self.trainable
        features, mask = self.positions_of(features, mask)
        features = tf.cast(features, self.compute_dtype)
        queries = tf.nn.relu(self.query_normalization(self.query(features), training=training, mask=mask))
        keys = tf.nn.relu(self.key_normalization(self.key(features), training=training, mask=mask))
        logits = tf.matmul(queries, keys, transpose_b=True) * queries.shape[-1] ** -0.5  # [batch, positions, positions]
        if mask is not None:
            logits = tf.where(mask[:, None, :], logits, -1e30)
        attended = tf.matmul(tf.nn.softmax(logits), self.value(features))
        return self.generalized_mean(features + self.attended(attended), mask=mask)

    def compute_output_shape(self, input_shape: InputShape) -> tuple[int | None, ...]:
        return (input_shape[0], self.num_channels(input_shape))

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "channel_reduction": self.channel_reduction,
            "power": self.generalized_mean.initial_power,
            "trainable_power": self.generalized_mean.trainable_power,
            "output_initializer": keras.initializers.serialize(self.output_initializer),
        }
