import itertools

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from milbich_dml import SamplingPolicy
from milbich_dml.sampling_policy import ESTIMATORS, act, actor_loss, critic_loss
from tests.support.slopes import slope_along

BINS, STATE = 4, 5


drawn = tf.function(act, autograph=False)


def policy_and_state(dtype="float64", seed=1):
    return SamplingPolicy(BINS, STATE, hidden=(6, 7), seed=seed, dtype=dtype), np.random.default_rng(seed).normal(
        size=STATE
    )


def chances(logits):
    exps = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exps / exps.sum(axis=1, keepdims=True)


def test_outputs_equal_a_plain_network():
    policy, state = policy_and_state()
    (k0, b0), (k1, b1), (k2, b2), (k3, b3) = ((np.array(k), np.array(b)) for k, b in policy.layers_of_weights)
    hidden = np.maximum(0.0, np.maximum(0.0, state @ k0 + b0) @ k1 + b1)
    logits, value = policy(tf.constant(state))
    np.testing.assert_allclose(logits, (hidden @ k2 + b2).reshape(BINS, 3), rtol=1e-9)
    np.testing.assert_allclose(value, (hidden @ k3 + b3)[0], rtol=1e-9)


def test_actions_are_drawn_with_their_chances():
    logits = tf.constant(np.random.default_rng(0).normal(size=(2, 3)))
    counts = np.zeros((2, 3))
    for decision in range(1000):
        actions = drawn(logits, tf.constant([5, decision], tf.int64)).numpy()
        counts[[0, 1], actions] += 1
    for row, expected in zip(counts, chances(logits.numpy())):
        assert stats.chisquare(row, 1000 * expected).pvalue > 1e-3
    seeds = [tf.constant([5, decision], tf.int64) for decision in (8, 8)]
    np.testing.assert_array_equal(*(act(logits, seed) for seed in seeds))


@pytest.mark.parametrize("advantage", [0.7, -0.7])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_gradients_of_all_parameters_equal_central_differences(estimator, advantage):
    policy, state = policy_and_state()
    old_policy = policy_and_state(seed=2)[0]
    old_policy.set_weights([0.98 * weight for weight in policy.get_weights()])
    actions, state = tf.constant([0, 2, 1, 2], tf.int64), tf.constant(state)

    def value():
        logits, expected = policy(state)
        loss = actor_loss(logits, old_policy(state).logits, actions, tf.constant(advantage), estimator)
        return loss + critic_loss(expected, tf.constant(0.4))

    with tf.GradientTape() as tape:
        total = value()
    rng = np.random.default_rng(3)
    for variable, gradient in zip(policy.trainable_variables, tape.gradient(total, policy.trainable_variables)):
        direction = rng.normal(size=variable.shape)
        numeric = slope_along(direction, variable, value)
        np.testing.assert_allclose(np.sum(gradient * direction), numeric, rtol=1e-5, atol=1e-8)


def gradient_in_logits(logits, old_logits, actions, advantage, estimator):
    logits = tf.constant(logits)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        loss = actor_loss(logits, tf.constant(old_logits), tf.constant(actions), tf.constant(advantage), estimator)
    return tape.gradient(loss, logits).numpy()


def test_ppo_and_reinforce_agree_where_the_ratio_is_one():
    logits = np.random.default_rng(0).normal(size=(BINS, 3))
    for advantage in (0.7, -0.7):
        gradients = [
            gradient_in_logits(logits, logits, [0, 2, 1, 1], advantage, name) for name in ("ppo_a2c", "reinforce_a2c")
        ]
        np.testing.assert_allclose(*gradients, rtol=1e-9)
        assert np.abs(gradients[0]).max() > 0.01


@pytest.mark.parametrize("is_high", [False, True])
@pytest.mark.parametrize("advantage", [1.0, -1.0])
def test_a_clipped_ratio_has_no_gradient(advantage, is_high):
    logits, old = np.zeros((1, 3)), np.zeros((1, 3))
    logits[0, 0] = 1.0 if is_high else -1.0  # ratios of 1.73 and .47
    gradient = gradient_in_logits(logits, old, [0], advantage, "ppo_a2c")
    assert np.any(gradient != 0) != (is_high == (advantage > 0))


def test_the_estimator_is_unbiased_for_the_expected_reward():
    """Against the exact gradient over all 3² actions of two bins."""
    rng = np.random.default_rng(4)
    logits, rewards = rng.normal(size=(2, 3)), rng.choice([-1.0, 1.0], size=(3, 3))
    rewards[0, 0], rewards[2, 1] = 1.0, -1.0
    variable = tf.constant(logits)
    with tf.GradientTape() as tape:
        tape.watch(variable)
        first, second = tf.unstack(tf.nn.softmax(variable, axis=1))
        expected_reward = tf.reduce_sum(first[:, None] * second[None, :] * rewards)
    exact = tape.gradient(expected_reward, variable).numpy()
    parts = np.zeros((3, 3, 2, 3))
    for i, j in itertools.product(range(3), repeat=2):
        parts[i, j] = -2 * gradient_in_logits(logits, logits, [i, j], rewards[i, j], "reinforce")  # of two bins
    p = chances(logits)
    enumerated = sum(p[0, i] * p[1, j] * parts[i, j] for i, j in itertools.product(range(3), repeat=2))
    np.testing.assert_allclose(enumerated, exact, rtol=1e-9, atol=1e-12)


def test_the_advantage_and_the_old_policy_have_no_gradient():
    logits, old, advantage = tf.constant(np.ones((1, 3))), tf.constant(np.zeros((1, 3))), tf.constant(0.5)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([logits, old, advantage])
        loss = actor_loss(logits, old, tf.constant([0]), 1.0 * advantage)
    assert tape.gradient(loss, old) is None
    assert tape.gradient(loss, advantage) is None
