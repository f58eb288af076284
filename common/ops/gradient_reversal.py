"""Gradient reversal: the identity whose gradient has the opposite sign."""

from __future__ import annotations

import tensorflow as tf


def reverse_gradient(x: tf.Tensor) -> tf.Tensor:
    """Return x, with its gradient times -1: layers below ascend what layers above descend.

    Reference: Ganin, Lempitsky: Unsupervised Domain Adaptation by Backpropagation, ICML 2015; Milbich's dissertation
    eq. 3.6.

    Args:
        x: floats, any shape `[...]`.

    Returns:
        x, of the same shape and type. Closed-form gradient: minus that of the identity.
    """

    @tf.custom_gradient
    def reversed_identity(values: tf.Tensor) -> tuple[tf.Tensor, object]:
        return tf.identity(values), tf.negative

    return reversed_identity(x)
