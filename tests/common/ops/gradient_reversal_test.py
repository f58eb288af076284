import numpy as np
import tensorflow as tf

from common.ops.gradient_reversal import reverse_gradient


def gradient_of(function, values):
    x = tf.constant(values, tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(x)
        total = tf.reduce_sum(function(x) ** 3)
    return tape.gradient(total, x).numpy()


def test_is_the_identity_with_minus_its_gradient():
    values = np.array([[1.0, -2.0], [0.5, 3.0]])
    np.testing.assert_array_equal(reverse_gradient(tf.constant(values)), values)
    np.testing.assert_array_equal(gradient_of(reverse_gradient, values), -3.0 * values**2)
