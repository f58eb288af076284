import numpy as np
import pytest
import tensorflow as tf

from milbich_dml import PolicyAdaptedSampling, PolicyRules, SamplingDistribution, policy_adapted_sampling as module
from milbich_dml.policy_adapted_sampling import FACTORS


def teacher_of(values, num_bins=3, observe=None, steps_per_decision=1, rules=None, seed=0, **settings):
    """A teacher whose measurements are given, one for each decision."""
    given = iter(values)

    def measure():
        value = next(given)
        return {"R@1": value, "NMI": 2 * value, "other": 0.0}

    distribution = SamplingDistribution(num_bins, start=None)
    return PolicyAdaptedSampling(
        distribution,
        measure,
        ("R@1", "NMI"),
        ("R@1", "NMI"),
        steps_per_decision,
        100,
        rules,
        seed,
        observe,
        **settings,
    )


def run(teacher, num_steps):
    for step in range(num_steps):
        teacher.on_train_batch_end(step)


def test_the_distribution_after_given_actions_by_hand(monkeypatch):
    actions = iter([[0, 1, 2], [2, 2, 0], [0, 0, 0], [1, 1, 2], [2, 0, 1]])
    monkeypatch.setattr(module, "act", lambda logits, seed: tf.constant(next(actions), tf.int64))
    seen = []
    teacher = teacher_of([0.1, 0.3, 0.2, 0.2, 0.5], observe=seen.append, steps_per_decision=2)
    run(teacher, 9)
    assert len(seen) == 4  # after 2, 4, 6 and 8 steps
    run(teacher, 1)
    weights = np.array([0.8 * 1.25 * 0.8 * 1.0 * 1.25, 1.0 * 1.25 * 0.8 * 1.0 * 0.8, 1.25 * 0.8 * 0.8 * 1.25 * 1.0])
    np.testing.assert_allclose(np.exp(teacher.distribution.log_weights), weights, rtol=1e-5)
    assert [decision.reward for decision in seen] == [None, 1.0, -1.0, 0.0, 1.0]
    np.testing.assert_allclose(seen[1].probabilities, np.array([0.8, 1.0, 1.25]) / 3.05, rtol=1e-6)
    assert seen[1].state[-1] == np.float32(4 / 100)
    np.testing.assert_array_equal(seen[2].state[-4:-1], np.float32(seen[2].probabilities))


def test_random_actions_learn_nothing_and_are_drawn_alike_for_any_measurement():
    rules, decisions = PolicyRules("random"), {}
    for name, values in {"rising": np.linspace(0.1, 0.9, 30), "falling": np.linspace(0.9, 0.1, 30)}.items():
        seen = decisions[name] = []
        teacher = teacher_of(values, num_bins=20, observe=seen.append, rules=rules, seed=3)
        first = [np.array(weight) for weight in teacher.policy.weights]
        run(teacher, 30)
        for before, after in zip(first, teacher.policy.weights, strict=True):
            np.testing.assert_array_equal(before, after)
    actions = {name: np.array([decision.actions for decision in seen]) for name, seen in decisions.items()}
    np.testing.assert_array_equal(actions["rising"], actions["falling"])
    counts = np.bincount(actions["rising"].ravel(), minlength=3)
    expected = counts.sum() / 3
    assert ((counts - expected) ** 2 / expected).sum() < 13.8  # chi-square with 2 degrees of freedom, p = .001


def test_the_older_policy_follows_every_fifth_update():
    teacher = teacher_of(np.random.default_rng(0).uniform(size=20))
    for decision in range(11):  # the first one teaches nothing
        run(teacher, 1)
        same = all(
            np.array_equal(*pair) for pair in zip(teacher.policy.get_weights(), teacher.old_policy.get_weights())
        )
        assert same == (decision in (0, 5, 10))


def test_the_average_of_the_rewards_moves_by_its_rate():
    teacher = teacher_of([0.1, 0.3, 0.2, 0.2, 0.5], rules=PolicyRules("reinforce_ema", average_rate=0.25))
    found = []
    for _ in range(5):
        teacher.decide()
        found.append(teacher.state()["average_reward"])
    rewards = [1.0, -1.0, 0.0, 1.0]
    expected = [0.0]
    for reward in rewards:
        expected.append(0.75 * expected[-1] + 0.25 * reward)
    assert found == expected  # all of them sums of powers of two


@pytest.mark.parametrize("estimator", ["ppo_a2c", "ppo_ema", "reinforce", "reinforce_ema", "reinforce_a2c"])
def test_a_restored_teacher_decides_the_same_bit_for_bit(estimator):
    values = np.random.default_rng(1).uniform(size=6)

    def make(observe, given):
        return teacher_of(given, observe=observe, steps_per_decision=3, rules=PolicyRules(estimator), seed=4)

    whole, parts = [], []
    teacher = make(whole.append, values)
    run(teacher, 18)
    first = make(parts.append, values)
    run(first, 11)  # three decisions, and two steps of the fourth period
    second = make(parts.append, values[3:])
    second.restore(first.state(), [array.copy() for array in first.arrays()])
    second.distribution.set_weights(first.distribution.get_weights())  # the model's part
    run(second, 7)
    assert len(whole) == len(parts) == 6
    for one, other in zip(whole, parts):
        for value, expected in zip(one, other):
            np.testing.assert_array_equal(value, expected)
    for one, other in zip(teacher.arrays(), second.arrays(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert teacher.state() == second.state()
    assert len({tuple(decision.actions) for decision in whole}) > 1


def test_a_restored_teacher_before_its_first_decision():
    teacher, other = teacher_of([0.1, 0.2], steps_per_decision=3), teacher_of([0.1, 0.2], steps_per_decision=3)
    run(teacher, 2)
    other.restore(teacher.state(), teacher.arrays())
    run(other, 1)
    run(teacher, 1)
    assert other.state() == teacher.state()


BUMP = np.exp(-((np.arange(5) - 4.0) ** 2) / (2 * 0.7**2))  # e of a distribution on each bin alone


def compile_descent(teacher):
    """Adam's step is more than half of what a decision costs without a graph."""
    apply, variables = teacher.optimizer.apply_gradients, teacher.policy.trainable_variables
    descend = tf.function(lambda gradients: apply(zip(gradients, variables)), autograph=False)
    teacher.optimizer.apply_gradients = lambda pairs: descend([gradient for gradient, _ in pairs])


def play(seed, num_decisions=120, learning_rate=4e-3, trend=0.0, is_random=False):
    """e of the last 20 decisions in an environment that rewards weight on the last of five bins."""
    seen = []

    def measure():
        value = float(distribution.probabilities() @ BUMP)
        seen.append(value)
        return {"e": value + trend * len(seen) / num_decisions}

    distribution = SamplingDistribution(5, start=None)
    rules = PolicyRules(learning_rate=learning_rate)
    teacher = PolicyAdaptedSampling(distribution, measure, ("e",), ("e",), 1, num_decisions, rules, seed)
    compile_descent(teacher)
    generator = np.random.default_rng(seed)
    for _ in range(num_decisions):
        if is_random:
            measure()
            distribution.scale_by(np.array(FACTORS)[generator.integers(0, 3, 5)])
        else:
            teacher.on_train_batch_end(0)
    return np.mean(seen[-20:])


@pytest.mark.slow
def test_a_known_best_distribution_is_found():
    assert abs(BUMP.mean() - 0.275) < 0.001
    found, random = play(0), play(0, is_random=True)
    assert found > 0.8
    assert found > random + 0.2
