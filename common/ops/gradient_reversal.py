"""Gradient reversal: the identity whose gradient has the opposite sign."""

from __future__ import annotations

import tensorflow as tf


def reverse_gradient(x: tf.Tensor) -> tf.Tensor:
    """`R(x) = x` with the gradient times -1: what is below descends on what is above as if it ascended.

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
