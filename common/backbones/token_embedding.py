"""A table of trainable vectors in the place of a convolutional network."""

import tensorflow as tf

from common.ops.checks import check_positive

keras = tf.keras


def token_embedding(num_tokens, dim=2, *, initial_range=0.3):
    """The "local features" of a bag of tokens: each token's own trainable vector.

    Reference: thesis 5.3.1 (synthetic study): tokens start uniformly in [-0.3, 0.3] and are trained.

    Args:
        num_tokens: tokens are 0 .. num_tokens - 1.
        dim: dimension of a token's vector (unstated in the thesis; its plots are of 2).
        initial_range: half the width of the interval of the initial values.

    Input shape: int32 tokens [batch, positions]
    Output shape: [batch, positions, dim]

    Returns:
        a keras.Model. Its gradient is sparse (tf.IndexedSlices).

    Raises:
        InvalidInput: a number that is not positive.

    Example:
        `token_embedding(num_tokens=68)(tf.zeros([8, 50], tf.int32))` has shape [8, 50, 2].
    """
    check_positive("num_tokens", num_tokens)
    check_positive("dim", dim)
    check_positive("initial_range", initial_range)
    tokens = keras.Input((None,), dtype="int32", name="tokens")
    initializer = keras.initializers.RandomUniform(-initial_range, initial_range)
    table = keras.layers.Embedding(num_tokens, dim, embeddings_initializer=initializer, name="embedding")
    return keras.Model(tokens, table(tokens), name="token_embedding")
