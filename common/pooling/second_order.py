"""Attention from covariances: of channels over positions, and of positions over channels."""

from __future__ import annotations

import tensorflow as tf
from tensorflow import keras

from common.errors import invalid
from common.ops.precision import in_full_precision
from common.ops.shapes import InputShape
from common.parameters import Count, LayerArguments, PoolingArguments, Unpack, checked
from common.pooling.feature_pooling import FeaturePooling
from common.pooling.position_counts import static_num_positions

ROW_OUTPUTS = 4  # what the row-wise convolution makes of one row of a covariance


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class SecondOrderPooling(FeaturePooling):
    """Average of features gated by attention that global second-order pooling computes (GSoP).

        pooled_c = (1/n) sum_j max( u_c f_jc, s_j f_jc )
        u = sigmoid( W_u rows( batch norm( Cov of channels of x ) ) ),        x = relu(batch norm(linear(relu f)))
        s = sigmoid( W_s relu( rows( batch norm( Cov of positions of y ) ) ) ),   y likewise, with its own weights

    `rows` maps each row of the covariance (`attention_dim` or n entries) to 4 numbers with weights of its own (the
    paper's row-wise grouped convolution); W has a bias. The weights of s belong to positions: this layer works for the
    one size of map that it was built for, and is not invariant to permutations of positions. Exact gradient. Batch
    normalisation uses batch statistics when `training` is true.

    Reference: thesis section 5.3.5 (viii, GSoP); Z. Gao, J. Xie, Q. Wang, P. Li, "Global second-order pooling
    convolutional networks", 2019 (channel and position attention, fused by the maximum). The paper resizes maps to
    8 x 8 before the covariance of positions. The published code does not centre the covariances and divides them
    by n^2 and channels^2, so that the epsilon of the batch normalisation damps them; and it takes `s_j relu(f_jc)` for
    the second argument of the maximum: then the whole is `relu(f_jc) max(u_c, s_j)`, and its embeddings have no
    negative entry.

    Head: the thesis projects first (`project_first=True`).

    Args:
        attention_dim: channels of x and y, at least 1.

    Input shape:
        `[batch, height, width, channels]` or `[batch, positions, channels]`, with known numbers of positions, without a
        mask.

    Output shape:
        `[batch, channels]`, float32 (or float64).

    Raises:
        InvalidInput: `attention_dim` is not positive, the number of positions is unknown, or there is a mask.
    """

    @checked
    def __init__(self, attention_dim: Count = 128, **kwargs: Unpack[PoolingArguments]) -> None:
        super().__init__(**in_full_precision(kwargs))
        self.attention_dim = int(attention_dim)
        branch = {"attention_dim": self.attention_dim, "dtype": self.dtype}
        self.channel_branch = _CovarianceRows(of_positions=False, name="channel_branch", **branch)
        self.position_branch = _CovarianceRows(of_positions=True, name="position_branch", **branch)

    def build(self, input_shape: InputShape) -> None:
        channels = self.num_channels(input_shape)
        positions = static_num_positions(input_shape, self.data_format)
        if positions is None:
            expected = "a known height and width (or number of positions)"
            raise invalid("input shape", received=tuple(input_shape), expected=expected)
        options = {"activation": "sigmoid", "dtype": self.dtype}
        self.channel_gate = keras.layers.Dense(channels, name="channel_gate", **options)
        self.position_gate = keras.layers.Dense(positions, name="position_gate", **options)
        for branch, gate, rows in (
            (self.channel_branch, self.channel_gate, self.attention_dim),
            (self.position_branch, self.position_gate, positions),
        ):
            branch.build((None, positions, channels))
            gate.build((None, ROW_OUTPUTS * rows))
        super().build(input_shape)

    def call(self, features: tf.Tensor, mask: tf.Tensor | None = None, training: bool | None = None) -> tf.Tensor:
        if mask is not None:
            raise invalid("mask", received="a mask", expected="None: the weights of this layer belong to positions")
        training = training and self.trainable
        features, _ = self.positions_of(features)
        features = tf.cast(features, self.compute_dtype)
        channel_gates = self.channel_gate(self.channel_branch(features, training=training))
        position_gates = self.position_gate(tf.nn.relu(self.position_branch(features, training=training)))
        gated = tf.maximum(channel_gates[:, None, :] * features, position_gates[:, :, None] * features)
        return tf.reduce_mean(gated, axis=1)

    def compute_output_shape(self, input_shape: InputShape) -> tuple[int | None, ...]:
        return (input_shape[0], self.num_channels(input_shape))

    def get_config(self) -> dict:
        return {**super().get_config(), "attention_dim": self.attention_dim}


class _CovarianceRows(keras.layers.Layer):
    """Features `[batch, positions, channels]` to `ROW_OUTPUTS` numbers per covariance row, `[batch, 4 * rows]`."""

    def __init__(self, *, attention_dim: int, of_positions: bool, **kwargs: Unpack[LayerArguments]) -> None:
        super().__init__(**kwargs)
        self.of_positions = of_positions
        self.reduction = keras.layers.Dense(attention_dim, use_bias=False, dtype=self.dtype, name="reduction")
        self.normalization = keras.layers.BatchNormalization(dtype=self.dtype, name="normalization")
        self.row_normalization = keras.layers.BatchNormalization(dtype=self.dtype, name="row_normalization")

    def build(self, input_shape: tuple[int | None, int, int]) -> None:
        _, positions, channels = input_shape
        rows = positions if self.of_positions else self.reduction.units
        self.reduction.build((None, positions, channels))
        self.normalization.build((None, positions, self.reduction.units))
        self.row_normalization.build((None, rows, rows))
        limit = (6.0 / (rows + ROW_OUTPUTS)) ** 0.5  # Glorot uniform for each row's own linear map
        self.kernel = self.add_weight(
            name="kernel",
            shape=(rows, rows, ROW_OUTPUTS),
            initializer=keras.initializers.RandomUniform(-limit, limit),
            trainable=True,
        )
        self.bias = self.add_weight(name="bias", shape=(rows, ROW_OUTPUTS), initializer="zeros", trainable=True)
        super().build(input_shape)

    def call(self, features: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        reduced = self.normalization(self.reduction(tf.nn.relu(features)), training=training)
        covariances = _covariances(tf.nn.relu(reduced), self.of_positions)
        covariances = self.row_normalization(covariances, training=training)  # [batch, rows, rows]
        outputs = tf.einsum("brc,rck->brk", covariances, tf.convert_to_tensor(self.kernel))
        outputs += tf.convert_to_tensor(self.bias)
        return tf.reshape(outputs, [-1, outputs.shape[1] * ROW_OUTPUTS])


def _covariances(features: tf.Tensor, of_positions: bool) -> tf.Tensor:
    """Return covariances of positions or channels: `[batch, n, n]` for n of them."""
    axis = 2 if of_positions else 1
    centered = features - tf.reduce_mean(features, axis=axis, keepdims=True)
    products = tf.matmul(centered, centered, transpose_a=not of_positions, transpose_b=of_positions)
    return products / tf.cast(tf.shape(features)[axis], features.dtype)
