import numpy as np
import pytest
import tensorflow as tf

from common.errors import InvalidInput
from common.training import CosineSchedule, CoupledWeightDecay, GradientClipping, ProxyRateOptimizer
from tests.common.training.adam_formula import adam_by_hand

keras = tf.keras


def small_model():
    inputs = keras.Input((3,))
    hidden = keras.layers.BatchNormalization()(keras.layers.Dense(2)(inputs))
    return keras.Model(inputs, hidden)


def test_decay_adds_the_weight_except_for_batch_normalization():
    model = small_model()
    variables = list(model.trainable_variables)
    for variable in variables:
        variable.assign(tf.ones_like(variable) * 2.0)
    gradients = [tf.zeros(variable.shape) for variable in variables]
    decayed = CoupledWeightDecay(0.1, model)(gradients, variables)
    for variable, gradient in zip(variables, decayed):
        is_normalization = "batch_normalization" in getattr(variable, "path", variable.name)
        np.testing.assert_allclose(gradient, np.full(variable.shape, 0.0 if is_normalization else 0.2), rtol=1e-6)


def test_clipping_by_norm_then_value():
    gradients = [tf.constant([30.0, 0.0]), tf.constant([-40.0])]
    clipped = GradientClipping(global_norm=10.0, value=7.0)(gradients, [])
    np.testing.assert_allclose(clipped[0], [6.0, 0.0], rtol=1e-6)
    np.testing.assert_allclose(clipped[1], [-7.0], rtol=1e-6)


def test_proxies_learn_faster_by_the_multiplier_and_follow_the_schedule():
    slow, fast = tf.Variable([1.0, -1.0]), tf.Variable([[1.0], [2.0]])
    update = ProxyRateOptimizer(keras.optimizers.Adam(1e-3, beta_2=0.99), multiplier=100.0)
    update.build([slow], [fast])
    gradients = [np.float32([[0.5, -2.0], [0.1, 0.3]]), np.float32([[[1.0], [-1.0]], [[0.2], [0.4]]])]
    for step in range(2):
        update.apply([tf.constant(gradients[0][step]), tf.constant(gradients[1][step])], [slow, fast], [fast])
    np.testing.assert_allclose(slow, adam_by_hand(np.float32([1.0, -1.0]), gradients[0], 1e-3, 0.99), rtol=1e-5)
    np.testing.assert_allclose(fast, adam_by_hand(np.float32([[1.0], [2.0]]), gradients[1], 0.1, 0.99), rtol=1e-5)
    update.optimizer.learning_rate.assign(5e-4)
    update.apply([tf.zeros(2), tf.zeros((2, 1))], [slow, fast], [fast])
    np.testing.assert_allclose(float(np.asarray(update.proxy_optimizer.learning_rate)), 5e-2, rtol=1e-6)


def test_averages_follow_their_formula_and_trade_places_with_the_weights():
    """Also of proxies, and of a weight with a rate of its own."""
    weights = slow, slower, fast = tf.Variable([1.0, -1.0]), tf.Variable([1.0]), tf.Variable([2.0])
    update = ProxyRateOptimizer(keras.optimizers.Adam(0.1), 10.0, rates=[(slower, 0.5)], ema_decay=0.3)
    update.build([slow, slower], [fast])
    expected = [np.array(weight, np.float64) for weight in weights]
    for step in range(1, 6):
        update.apply([tf.constant([0.5, -step]), tf.constant([1.0]), tf.constant([-0.2])], weights, [fast])
        decay = min(0.3, (1 + step) / (10 + step))
        expected = [decay * average + (1 - decay) * np.array(weight) for average, weight in zip(expected, weights)]
    before = [np.array(weight) for weight in weights]
    with update.averaged_weights():
        for weight, average, raw in zip(weights, expected, before):
            np.testing.assert_allclose(weight, average, rtol=1e-6)
            assert np.any(np.array(weight) != raw)
    for weight, raw in zip(weights, before):
        np.testing.assert_array_equal(weight, raw)
    with pytest.raises(InvalidInput, match=r"ema_decay: received 1.0, expected a number in \[0, 1\)"):
        ProxyRateOptimizer(keras.optimizers.Adam(), ema_decay=1.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CoupledWeightDecay(-1.0, small_model()), "weight_decay.*-1.0"),
        (lambda: GradientClipping(0.0, 1.0), "clip_norm"),
        (lambda: ProxyRateOptimizer(keras.optimizers.Adam(), multiplier=0.0), "multiplier"),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()


def test_slower_and_faster_variables_move_by_their_multiple_of_an_update():
    variables = whole, tenth, tenfold = [tf.Variable([1.0, -1.0]) for _ in range(3)]
    rates = [(tenth, 0.1), (whole, 1.0), (tenfold, 10.0)]
    update = ProxyRateOptimizer(keras.optimizers.Adam(1e-2, beta_2=0.99), rates=rates)
    update.build(variables, [])
    gradients = np.float32([[0.5, -2.0], [0.1, 0.3]])
    for gradient in gradients:
        update.apply([tf.constant(gradient)] * 3, variables, [])
    for variable, rate in zip(variables, (1e-2, 1e-3, 1e-1)):
        np.testing.assert_allclose(variable, adam_by_hand(np.float32([1, -1]), gradients, rate, 0.99), rtol=1e-5)
    with pytest.raises(InvalidInput, match="rate.*0.0"):
        ProxyRateOptimizer(keras.optimizers.Adam(), rates=[(tenth, 0.0)])


def test_a_cosine_moves_network_and_proxies_and_ends_at_zero():
    slow, fast = tf.Variable([1.0]), tf.Variable([1.0])
    schedule = CosineSchedule(1e-2, 4)
    update = ProxyRateOptimizer(keras.optimizers.SGD(1e-2), 10.0, schedule=schedule)
    update.build([slow], [fast])
    rates = [1e-2 / 2 * (1 + np.cos(np.pi * step / 4)) for step in range(4)]
    for step, rate in enumerate(rates):
        before = float(slow[0]), float(fast[0])
        update.apply([tf.constant([1.0])] * 2, [slow, fast], [fast])
        np.testing.assert_allclose(
            float(np.asarray(update.optimizer.learning_rate)), rate, rtol=1e-5, err_msg=str(step)
        )
        np.testing.assert_allclose([before[0] - slow[0], before[1] - fast[0]], [rate, 10 * rate], rtol=1e-3)
    assert [float(schedule(tf.constant(step))) for step in (4, 9)] == pytest.approx([0.0, 0.0], abs=1e-9)
    with pytest.raises(InvalidInput, match="max_steps"):
        CosineSchedule(1e-2, 0)
