import numpy as np
import pytest
import tensorflow as tf

from ccp_dml import ProximalTerm
from common.errors import InvalidInput

keras = tf.keras


def make_layer():
    layer = keras.layers.Dense(2)
    layer.build((None, 3))
    return layer


def test_adds_rate_times_the_way_from_the_target():
    layer, other = make_layer(), tf.Variable([5.0])
    term = ProximalTerm(layer.trainable_variables, rate=0.25)
    layer.set_weights([weight + 2.0 for weight in layer.get_weights()])
    variables = [*layer.trainable_variables, other]
    gradients = term([tf.ones_like(tf.convert_to_tensor(variable)) for variable in variables], variables)
    for gradient, expected in zip(gradients, (1.5, 1.5, 1.0)):
        np.testing.assert_allclose(gradient, np.full(gradient.shape, expected), rtol=1e-6)


def test_target_and_rate_can_be_set_in_a_traced_step():
    variable = tf.Variable([1.0, 2.0])
    term = ProximalTerm([variable], rate=0.5)
    step = tf.function(lambda: term([tf.zeros(2)], [variable])[0])
    np.testing.assert_array_equal(step(), [0.0, 0.0])
    term.set_targets([np.array([0.0, 4.0], np.float32)])
    np.testing.assert_array_equal(step(), [0.5, -1.0])
    term.current_rate.assign(0.0)
    np.testing.assert_array_equal(step(), [0.0, 0.0])
    term.current_rate.assign(term.rate)
    variable.assign([7.0, 7.0])
    term.set_targets()
    np.testing.assert_array_equal(step(), [0.0, 0.0])
    np.testing.assert_array_equal(term.targets()[0], [7.0, 7.0])


def test_half_precision_gradients_keep_their_type():
    variable = tf.Variable([1.0])
    term = ProximalTerm([variable], rate=0.5)
    variable.assign([2.0])
    gradient = term([tf.zeros(1, tf.float16)], [variable])[0]
    assert gradient.dtype == tf.float16
    assert float(gradient[0]) == 0.5


def test_bad_arguments():
    with pytest.raises(InvalidInput, match="variables"):
        ProximalTerm([], 0.1)
    with pytest.raises(InvalidInput, match="ccp_lambda"):
        ProximalTerm([tf.Variable(1.0)], -1.0)
