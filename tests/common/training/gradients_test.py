import numpy as np
import pytest
import tensorflow as tf

from common.training import ProxyRateOptimizer
from common.training.gradients import apply_gradients, are_finite, loss_and_gradients, loss_scale

keras = tf.keras


def optimizer(scaled, rate=0.5):
    inner = keras.optimizers.SGD(rate)
    return keras.mixed_precision.LossScaleOptimizer(inner, initial_scale=8.0) if scaled else inner


@pytest.mark.parametrize("scaled", [False, True])
def test_gradients_are_those_of_the_loss_itself_and_dense(scaled):
    used, unused = tf.Variable([1.0, 2.0]), tf.Variable([[3.0]])
    update = optimizer(scaled)
    update.build([used, unused])
    seen = []

    def compute_loss():
        seen.append(1)
        return tf.reduce_sum(used**2)

    loss, gradients = loss_and_gradients(compute_loss, [used, unused], update)
    assert (float(loss), len(seen)) == (5.0, 1)
    np.testing.assert_array_equal(gradients[0], [2.0, 4.0])
    np.testing.assert_array_equal(gradients[1], [[0.0]])
    apply_gradients(update, gradients, [used, unused])
    np.testing.assert_array_equal(used, [0.0, 0.0])
    np.testing.assert_array_equal(unused, [[3.0]])


def test_a_gradient_of_half_precision_survives_the_scale():
    variable = tf.Variable([1.0])
    smallest = 2.0**-25  # beyond float16, and within it times 8

    def compute_loss():
        return tf.reduce_sum(
            tf.cast(tf.cast(variable, tf.float16) * tf.constant(1.0, tf.float16), tf.float32) * smallest
        )

    found = {}
    for scaled in (False, True):
        update = optimizer(scaled)
        update.build([variable])
        found[scaled] = float(loss_and_gradients(compute_loss, [variable], update)[1][0][0])
    assert found == {False: 0.0, True: smallest}


def test_finite_means_all_of_them():
    assert are_finite([tf.constant([1.0]), tf.constant([[2.0]])])
    for value in (np.nan, np.inf):
        assert not are_finite([tf.constant([1.0]), tf.constant([[value]])])


@pytest.mark.parametrize("broken", [0, 1])
def test_a_step_that_is_not_finite_is_left_out_at_both_paces(broken):
    slow, fast = tf.Variable([1.0]), tf.Variable([2.0])
    update = ProxyRateOptimizer(optimizer(True), multiplier=4.0)
    update.build([slow], [fast])
    gradients = [tf.constant([0.25]), tf.constant([0.5])]
    update.apply([g * np.inf if i == broken else g for i, g in enumerate(gradients)], [slow, fast], [fast])
    np.testing.assert_array_equal([slow[0], fast[0]], [1.0, 2.0])
    scales = [float(loss_scale(each)) for each in (update.optimizer, update.proxy_optimizer)]
    assert scales == [4.0, 4.0]
    update.apply(gradients, [slow, fast], [fast])
    np.testing.assert_array_equal([slow[0], fast[0]], [1.0 - 0.5 * 0.25, 2.0 - 4.0 * 0.5 * 0.5])
