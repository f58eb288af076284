"""Attention over channels, then over positions."""

from __future__ import annotations

import tensorflow as tf
from tensorflow import keras

from common.ops.shapes import InputShape
from common.parameters import Count, PoolingArguments, Unpack, checked
from common.pooling.feature_pooling import masked_max, masked_mean
from common.pooling.neighborhoods import as_maps, as_positions, check_has_neighborhoods, check_window
from common.pooling.weighted_pooling import WeightedPooling, shares, weighted_mean


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class CBAMPooling(WeightedPooling):
    """Average of features that a convolutional block attention module has gated (CBAM).

        pooled = (1/n) sum_j s_j (c * f_j)
        c = sigmoid( MLP(mean_j f_j) + MLP(max_j f_j) ),   MLP: channels -> channels / reduction -> channels
        s = sigmoid( convolution of [mean over channels of c * f, max over channels of c * f] )

    Neither the multilayer perceptron (ReLU inside) nor the convolution has a bias. Exact gradient.

    Reference: thesis section 5.3.5 (iii, CBAM); S. Woo, J. Park, J.-Y. Lee, I. S. Kweon, "CBAM: convolutional block
    attention module", 2018. The paper has a 7 x 7 convolution and a reduction of 16; the published
    configuration a 3 x 3 one (feature maps are 7 x 7) and a reduction of 1, which are the defaults here.

    Head: the thesis pools first and then projects (`project_first=False`).

    Args:
        channel_reduction: how much narrower the perceptron is inside, at least 1.
        kernel_size: side of the convolution in positions, odd; 1 for token sequences.

    Input shape:
        `[batch, height, width, channels]`, or `[batch, positions, channels]` with `kernel_size=1`.

    Output shape:
        `[batch, channels]`, float32 (or float64).

    Raises:
        InvalidInput: an argument is out of range, or `kernel_size` is larger than 1 for token sequences.
    """

    @checked
    def __init__(
        self, channel_reduction: Count = 1, *, kernel_size: int = 3, **kwargs: Unpack[PoolingArguments]
    ) -> None:
        super().__init__(**kwargs)
        self.channel_reduction = int(channel_reduction)
        self.kernel_size = check_window("kernel_size", kernel_size)
        self.position_gate = keras.layers.Conv2D(
            1,
            self.kernel_size,
            padding="same",
            data_format="channels_last",
            use_bias=False,
            activation="sigmoid",
            dtype=self.dtype,
            name="position_gate",
        )

    def build(self, input_shape: InputShape) -> None:
        channels = self.num_channels(input_shape)
        check_has_neighborhoods(input_shape, "kernel_size", self.kernel_size)
        width = max(channels // self.channel_reduction, 1)
        options = {"use_bias": False, "dtype": self.dtype}
        self.narrow = keras.layers.Dense(width, activation="relu", name="narrow", **options)
        self.widen = keras.layers.Dense(channels, name="widen", **options)
        self.narrow.build((None, channels))
        self.widen.build((None, width))
        self.position_gate.build((None, None, None, 2))
        super().build(input_shape)

    def call(self, features: tf.Tensor, mask: tf.Tensor | None = None, training: bool | None = None) -> tf.Tensor:
        gated, gates, mask = self._gated(features, mask)
        return weighted_mean(gates, gated, mask)

    def spatial_weights(self, features: tf.Tensor, mask: tf.Tensor | None = None) -> tf.Tensor:
        """Return each position's share `s_j / sum_l s_l`, `[batch, positions]`; see `WeightedPooling`."""
        _, gates, mask = self._gated(features, mask)
        return shares(gates, mask)

    def _gated(self, features: tf.Tensor, mask: tf.Tensor | None) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor | None]:
        """Return `c * f` `[batch, positions, channels]`, s `[batch, positions]` and the mask."""
        positions, mask = self.full_precision_positions(features, mask)
        gates = tf.sigmoid(
            self._perceptron(masked_mean(positions, mask)) + self._perceptron(masked_max(positions, mask))
        )
        positions *= gates[:, None, :]
        summary = tf.stack([tf.reduce_mean(positions, axis=-1), tf.reduce_max(positions, axis=-1)], axis=-1)
        maps = as_maps(summary, features, self.data_format)
        return positions, as_positions(self.position_gate(maps))[..., 0], mask

    def _perceptron(self, vectors: tf.Tensor) -> tf.Tensor:
        """Apply the shared perceptron to `[batch, channels]`, with the same shape."""
        return self.widen(self.narrow(vectors))

    def compute_output_shape(self, input_shape: InputShape) -> tuple[int | None, ...]:
        return (input_shape[0], self.num_channels(input_shape))

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "channel_reduction": self.channel_reduction,
            "kernel_size": self.kernel_size,
        }
