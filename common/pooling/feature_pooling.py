"""Base of all poolings: turns feature maps and tokens into positions and applies masks."""

from __future__ import annotations

import abc

import tensorflow as tf
from tensorflow import keras

from common.errors import check_keras, invalid
from common.ops.shapes import InputShape
from common.ops.unfinished_start import UnfinishedStart
from common.parameters import DataFormat, LayerArguments, Unpack, checked

check_keras(keras)


class FeaturePooling(UnfinishedStart, keras.layers.Layer, abc.ABC):
    """The interface of a pooling: local features to one vector.

    Args:
        data_format: "channels_last", "channels_first" or None (the Keras default). Only feature maps have a choice;
            token sequences are `[batch, positions, channels]`.

    Input shape:
        `[batch, height, width, channels]` (`[batch, channels, height, width]`) or `[batch, positions, channels]`, with
        an optional boolean mask `[batch, height, width]` or `[batch, positions]`: False at padding.

    Output shape:
        `[batch, channels]`, or a dictionary with that as entry "pooled". Never depends on `training`.
    """

    @checked
    def __init__(self, *, data_format: DataFormat | None = None, **kwargs: Unpack[LayerArguments]) -> None:
        super().__init__(**kwargs)
        if data_format is None:
            data_format = keras.backend.image_data_format()
        self.data_format = data_format
        self.supports_masking = True

    def build(self, input_shape: InputShape) -> None:
        """Fix the number of channels, if weights depend on it."""
        channels = self.num_channels(input_shape)
        if any(len(weight.shape) for weight in self.weights):
            self.input_spec = keras.layers.InputSpec(axes={self._channel_axis(input_shape): channels})
        super().build(input_shape)

    @abc.abstractmethod
    def call(
        self, features: tf.Tensor, mask: tf.Tensor | None = None, training: bool | None = None
    ) -> tf.Tensor | dict[str, tf.Tensor]:
        """Pool `features` over the positions that `mask` allows."""

    def compute_mask(self, inputs: tf.Tensor, mask: tf.Tensor | None = None) -> None:
        """Return no mask: the positions are gone after pooling."""
        del inputs, mask

    def get_config(self) -> dict:
        return {**super().get_config(), "data_format": self.data_format}

    def num_channels(self, input_shape: InputShape) -> int:
        """Return the channels of an input shape; raise `InvalidInput` for a wrong rank."""
        input_shape = tuple(input_shape)
        if len(input_shape) not in (3, 4):
            expected = "[batch, height, width, channels] or [batch, positions, channels]"
            raise invalid(f"input shape of {type(self).__name__}", received=input_shape, expected=expected)
        channels = input_shape[self._channel_axis(input_shape)]
        if channels is None:
            raise invalid("input shape", received=input_shape, expected="a known number of channels")
        return int(channels)

    def _channel_axis(self, input_shape: InputShape) -> int:
        return 1 if len(input_shape) == 4 and self.data_format == "channels_first" else -1

    def positions_of(self, features: tf.Tensor, mask: tf.Tensor | None = None) -> tuple[tf.Tensor, tf.Tensor | None]:
        """Flatten feature maps.

        Args:
            features: in one of the input shapes of this layer.
            mask: boolean, one value per position, or None.

        Returns:
            features `[batch, positions, channels]` and mask `[batch, positions]` (or None).

        Raises:
            InvalidInput: ragged features, a wrong rank, or a mask of other positions.
        """
        if isinstance(features, tf.RaggedTensor):
            fix = "Give features.to_tensor() and mask=tf.sequence_mask(features.row_lengths())."
            raise invalid("features", received="a ragged tensor", expected="a dense one with a mask", fix=fix)
        channels, places = self.num_channels(features.shape), features.shape[:2]
        if len(features.shape) == 4:
            if self.data_format == "channels_first":
                features = tf.transpose(features, [0, 2, 3, 1])
            places = features.shape[:3]
            height, width = places[1:]
            num_positions = None if height is None or width is None else height * width
            features = tf.reshape(features, [tf.shape(features)[0], num_positions or -1, channels])
        if mask is not None:
            if not any(shape.is_compatible_with(mask.shape) for shape in (places, features.shape[:2])):
                raise invalid("mask", received=f"shape {tuple(mask.shape)}", expected=f"shape {tuple(places)}")
            mask = tf.reshape(tf.cast(mask, tf.bool), tf.shape(features)[:2])
        return features, mask


def masked_mean(features: tf.Tensor, mask: tf.Tensor | None = None) -> tf.Tensor:
    """Return the mean over positions, `[batch, channels]`; 0 if all are masked."""
    if mask is None:
        return tf.reduce_mean(features, axis=1)
    total = tf.reduce_sum(tf.where(mask[..., None], features, 0), axis=1)
    return tf.math.divide_no_nan(total, tf.reduce_sum(tf.cast(mask, features.dtype), axis=1, keepdims=True))


def masked_max(features: tf.Tensor, mask: tf.Tensor | None = None) -> tf.Tensor:
    """Return the maximum over positions, `[batch, channels]`; 0 if all are masked."""
    if mask is None:
        return tf.reduce_max(features, axis=1)
    largest = tf.reduce_max(tf.where(mask[..., None], features, features.dtype.min), axis=1)
    return tf.where(tf.reduce_any(mask, axis=1, keepdims=True), largest, 0)
