"""Layers of vision transformers: token sequence, prompts, self-attention, and return to feature maps."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow import keras

from common.backbones.network_names import CLASS_TOKEN, PATCHES, TOKENS
from common.errors import check_choice, check_positive, invalid
from common.ops.precision import at_least_float32
from common.ops.shapes import InputShape


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class ClassTokenAndPositions(keras.layers.Layer):
    """Patch features as a sequence, with a class token and trained positions.

    The class token comes first; each position has one trained vector.

    Reference: Dosovitskiy et al., An Image is Worth 16x16 Words (ICLR 2021), equation 1.

    Input shape: [batch, height, width, channels]
    Output shape: [batch, 1 + height · width, channels]
    """

    cls_token: tf.Variable
    pos_embed: tf.Variable

    def build(self, input_shape: InputShape) -> None:
        """Create the class token and the positions.

        Shapes: `[1, 1, channels]` and `[1, 1 + height · width, channels]`.
        """
        height, width, channels = (int(size) for size in tuple(input_shape)[1:])
        initializer = keras.initializers.TruncatedNormal(stddev=0.02)
        self.cls_token = self.add_weight(name="cls_token", shape=(1, 1, channels), initializer="zeros")
        self.pos_embed = self.add_weight(
            name="pos_embed", shape=(1, 1 + height * width, channels), initializer=initializer
        )
        super().build(input_shape)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Turn feature maps into tokens.

        The class token comes first, then the patches row by row.
        """
        batch, channels = tf.shape(inputs)[0], inputs.shape[-1]
        patches = tf.reshape(inputs, [batch, inputs.shape[1] * inputs.shape[2], channels])
        first = tf.broadcast_to(tf.cast(self.cls_token, patches.dtype), [batch, 1, channels])
        return tf.concat([first, patches], axis=1) + tf.cast(self.pos_embed, patches.dtype)


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class Prompts(keras.layers.Layer):
    """Trained tokens between the class token and the patches (visual prompts).

    Prompts begin uniformly in `± sqrt(6 / (3 · patch_size² + channels))`. Exact gradient.

    Reference: Jia, Tang, Chen, Cardie, Belongie, Hariharan, Lim, Visual Prompt Tuning (ECCV 2022), equations 4 to 7.

    Args:
        num_prompts: tokens, > 0.
        patch_size: height and width of a patch in pixels, > 0.
        replace: whether they take the places of the prompts of the block before.

    Input shape: [batch, tokens, channels]
    Output shape: [batch, tokens + num_prompts, channels]; if they replace others, that of the input
    """

    prompts: tf.Variable

    def __init__(self, num_prompts: int, patch_size: int, replace: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.num_prompts = int(check_positive("num_prompts", num_prompts))
        self.patch_size = int(check_positive("patch_size", patch_size))
        self.replace = bool(replace)

    def build(self, input_shape: InputShape) -> None:
        """Create the prompts, of shape `[1, num_prompts, channels]`."""
        channels = int(input_shape[-1] or 0)
        bound = (6 / (3 * self.patch_size**2 + channels)) ** 0.5
        initializer = keras.initializers.RandomUniform(-bound, bound)
        shape = (1, self.num_prompts, channels)
        self.prompts = self.add_weight(name="prompts", shape=shape, initializer=initializer)
        super().build(input_shape)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Insert or replace the prompts behind the class token."""
        shape = [tf.shape(inputs)[0], self.num_prompts, inputs.shape[-1]]
        prompts = tf.broadcast_to(tf.cast(self.prompts, inputs.dtype), shape)
        rest = inputs[:, 1 + self.num_prompts * self.replace :]
        return tf.concat([inputs[:, :1], prompts, rest], axis=1)

    def get_config(self) -> dict:
        """Return the configuration that rebuilds this layer."""
        own = {"num_prompts": self.num_prompts, "patch_size": self.patch_size, "replace": self.replace}
        return {**super().get_config(), **own}


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class SelfAttention(keras.layers.Layer):
    """Multi-head attention `softmax(q k^T / sqrt(d)) v`, without weights.

    The input holds queries, keys and values side by side. The softmax is computed in float32 at least. Exact gradient.

    Reference: Vaswani et al., Attention Is All You Need (NeurIPS 2017), equation 1.

    Args:
        num_heads: heads, > 0; the channels are divided among them in order.

    Input shape: [batch, tokens, 3 · channels]: queries, keys, values
    Output shape: [batch, tokens, channels]

    Raises:
        InvalidInput: channels that the heads cannot share evenly.
    """

    def __init__(self, num_heads: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.num_heads = int(check_positive("num_heads", num_heads))

    def build(self, input_shape: InputShape) -> None:
        """Check the number of channels; there are no weights."""
        if int(input_shape[-1] or 0) % (3 * self.num_heads):
            raise invalid(
                "channels of SelfAttention",
                received=input_shape[-1],
                expected=f"a multiple of 3 x {self.num_heads} heads",
            )
        super().build(input_shape)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Attend from each token to all tokens."""
        batch, tokens, channels = tf.shape(inputs)[0], inputs.shape[1], inputs.shape[2] // 3
        head_dim = channels // self.num_heads
        split = tf.transpose(tf.reshape(inputs, [batch, tokens, 3, self.num_heads, head_dim]), [2, 0, 3, 1, 4])
        queries, keys, values = split[0], split[1], split[2]
        logits = at_least_float32(tf.matmul(queries * head_dim**-0.5, keys, transpose_b=True))
        mixed = tf.matmul(tf.cast(tf.nn.softmax(logits), values.dtype), values)
        return tf.reshape(tf.transpose(mixed, [0, 2, 1, 3]), [batch, tokens, channels])

    def get_config(self) -> dict:
        """Return the configuration that rebuilds this layer."""
        return {**super().get_config(), "num_heads": self.num_heads}


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class TokenMap(keras.layers.Layer):
    """A sequence's patch tokens as a feature map, or its class token alone.

    The class token is a map of one position. Poolings, caches and drawings of feature maps can thus read a transformer.
    They see no class token, registers or prompts beside the patches.

    Args:
        tokens: `patches`, or `class` for the class token alone.
        num_leading: tokens before the patches, >= 0: the class token, then registers or prompts.

    Input shape: [batch, num_leading + side · side, channels]
    Output shape: [batch, side, side, channels]; of the class token [batch, 1, 1, channels]

    Raises:
        InvalidInput: patches that are no square, or a class token asked of a sequence without one.
    """

    def __init__(self, tokens: str = PATCHES, num_leading: int = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.tokens = check_choice("tokens", tokens, TOKENS)
        self.num_leading = int(num_leading)
        if tokens == CLASS_TOKEN and self.num_leading < 1:
            raise invalid("tokens", received=tokens, expected=f"{PATCHES}: this network has no class token")

    def build(self, input_shape: InputShape) -> None:
        """Check the number of tokens; there are no weights."""
        self._side(int(input_shape[1] or 0))
        super().build(input_shape)

    def _side(self, num_tokens: int) -> int:
        side = round(max(num_tokens - self.num_leading, 0) ** 0.5)
        if side == 0 or side**2 != num_tokens - self.num_leading:
            raise invalid(
                "number of tokens", received=num_tokens, expected=f"{self.num_leading} and a square number of patches"
            )
        return side

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Turn tokens into a feature map."""
        if self.tokens == CLASS_TOKEN:
            return inputs[:, None, :1]
        side = self._side(inputs.shape[1])
        return tf.reshape(inputs[:, self.num_leading :], [tf.shape(inputs)[0], side, side, inputs.shape[-1]])

    def get_config(self) -> dict:
        """Return the configuration that rebuilds this layer."""
        return {**super().get_config(), "tokens": self.tokens, "num_leading": self.num_leading}
