import numpy as np
import pytest
import tensorflow as tf
from sklearn.covariance import LedoitWolf
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from common.errors import InvalidInput
from common.training import CosineSchedule, CoupledWeightDecay, GradientClipping, ProxyRateOptimizer
from common.training.closed_forms import principal_components, within_class_whitening
from common.training.gradients import apply_gradients, are_finite, loss_and_gradients, loss_scale
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


CLASSES, CHANNELS = 6, 9


@pytest.fixture(scope="module")
def labels():
    return np.arange(120) % CLASSES


@pytest.fixture(scope="module")
def features(labels):
    rng = np.random.default_rng(3)
    within = rng.normal(size=(len(labels), CHANNELS)) @ rng.normal(size=(CHANNELS, CHANNELS))
    return (5 + within + rng.normal(0, 2, (CLASSES, CHANNELS))[labels]).astype(np.float32)


def test_principal_components_are_scikit_learns(features):
    ours, theirs = principal_components(features, 4)(features), PCA(4).fit_transform(features.astype(np.float64))
    np.testing.assert_allclose(np.abs(ours), np.abs(theirs), atol=1e-5)
    np.testing.assert_allclose(ours.mean(axis=0), 0, atol=1e-9)


def test_whitening_without_shrinkage_is_linear_discriminant_analysis(features, labels):
    ours = within_class_whitening(features, labels, CLASSES - 1, shrinkage=0)(features)
    theirs = LinearDiscriminantAnalysis(solver="svd").fit(features, labels).transform(features)
    inner, expected = ours @ ours.T, theirs @ theirs.T  # whatever the signs of the axes
    np.testing.assert_allclose(inner, expected, rtol=1e-4, atol=1e-2)


def test_the_covariance_within_classes_is_shrunk_as_scikit_learns_is(features, labels):
    means = np.stack([features[labels == label].mean(axis=0) for label in range(CLASSES)])
    covariance = LedoitWolf(assume_centered=True).fit((features - means[labels]).astype(np.float64)).covariance_
    whitened = within_class_whitening(features, labels, CHANNELS)
    np.testing.assert_allclose(whitened.kernel.T @ covariance @ whitened.kernel, np.eye(CHANNELS), atol=1e-4)
    half = within_class_whitening(features, labels, CHANNELS, share=0.5).kernel
    half = half @ half.T  # without the principal axes
    np.testing.assert_allclose(half @ covariance @ half, np.eye(CHANNELS), atol=1e-4)


def test_directions_without_variance_within_classes_stay_finite(labels):
    features = np.random.default_rng(0).normal(size=(len(labels), CHANNELS))
    features[:, :2] = np.eye(CLASSES)[labels, :2]
    whitened = within_class_whitening(features, labels, CHANNELS, shrinkage=0)
    assert np.isfinite(whitened.kernel).all()
