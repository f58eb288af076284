"""A table of trainable vectors instead of a convolutional network."""

from __future__ import annotations

import tensorflow as tf
from tensorflow import keras

from common.errors import check_positive


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class WithinBound(keras.constraints.Constraint):
    """Keeps every entry of a weight in [-bound, bound].

    After each update, entries outside move to the nearer end.

    Args:
        bound: half the width of the interval, > 0.
    """

    def __init__(self, bound: float) -> None:
        self.bound = check_positive("bound", bound)

    def __call__(self, weight: tf.Tensor) -> tf.Tensor:
        return tf.clip_by_value(weight, -self.bound, self.bound)

    def get_config(self) -> dict:
        return {"bound": self.bound}


def token_embedding(num_tokens: int, dim: int = 2, *, bound: float = 0.3) -> keras.Model:
    """Build the "local features" of a bag of tokens.

    Each token has its own trainable vector.

    Reference: thesis 5.3.1 (synthetic study): the vectors begin uniformly in [-0.3, 0.3] and stay there, so that
    distances cannot grow without limit.

    Args:
        num_tokens: tokens are 0 .. num_tokens - 1.
        dim: dimension of a token's vector (unstated in the thesis; its plots are of 2).
        bound: half the width of the interval that holds all entries.

    Input shape: int32 tokens [batch, positions]
    Output shape: [batch, positions, dim]

    Returns:
        a keras.Model. Its gradient is sparse (tf.IndexedSlices).

    Raises:
        InvalidInput: a number that is not positive.

    Examples:
        `token_embedding(num_tokens=68)(tf.zeros([8, 50], tf.int32))` has shape [8, 50, 2].
    """
    check_positive("num_tokens", num_tokens)
    check_positive("dim", dim)
    tokens = keras.Input((None,), dtype="int32", name="tokens")
    table = keras.layers.Embedding(
        num_tokens,
        dim,
        embeddings_initializer=keras.initializers.RandomUniform(-bound, bound),
        embeddings_constraint=WithinBound(bound),
        name="embedding",
    )
    return keras.Model(tokens, table(tokens), name="token_embedding")
