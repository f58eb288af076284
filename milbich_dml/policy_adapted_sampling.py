"""PADS: a policy that adapts the distances of negatives by validation images."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from common.errors import check_choice, check_fraction, check_positive, invalid
from common.records import ResumableCallback
from common.training.fused_adam import FusedAdam
from milbich_dml.pads import ESTIMATORS, RANDOM
from milbich_dml.sampling_distribution import SamplingDistribution
from milbich_dml.sampling_policy import SamplingPolicy, act, actor_loss, critic_loss
from milbich_dml.training_state import TrainingStateHistory

FACTORS = (0.8, 1.0, 1.25)  # of the three actions


class Decision(NamedTuple):
    """One decision of the teacher, for records and pictures."""

    number: int  # from 0
    probabilities: np.ndarray  # [bins], before the action
    state: np.ndarray  # [state_size]
    actions: np.ndarray  # [bins], places in `FACTORS`
    reward: float | None  # of the decision before; None at the first


@dataclasses.dataclass(frozen=True)
class PolicyRules:
    """Learning rules of the policy.

    Attributes:
        estimator: one of `ESTIMATORS`. `ppo_a2c`: `A = r + γ V(s') - V(s)`; `..._ema`: r minus its moving average;
            `reinforce`: r. Those with `a2c` teach the critic. Or `random`: uniform actions, without learning.
        learning_rate: of Adam, greater than 0.
        clip: ε of PPO, greater than 0.
        discount: γ, in [0, 1].
        sync_every: updates after which PPO's older policy becomes the present one, at least 1.
        average_rate: of the moving average of rewards, in (0, 1].

    Raises:
        InvalidInput: a value is out of its range.
    """

    estimator: str = "ppo_a2c"
    learning_rate: float = 0.01
    clip: float = 0.2
    discount: float = 0.99
    sync_every: int = 5
    average_rate: float = 0.05

    def __post_init__(self) -> None:
        check_choice("estimator", self.estimator, (*ESTIMATORS, RANDOM))
        check_positive("learning_rate", self.learning_rate)
        check_positive("clip", self.clip)
        check_fraction("discount", self.discount, zero_allowed=True)
        check_positive("sync_every", self.sync_every)
        check_fraction("average_rate", self.average_rate)

    @property
    def has_critic(self) -> bool:
        """True if advantages come from the critic."""
        return self.estimator.endswith("a2c")


class PolicyAdaptedSampling(ResumableCallback):
    """Scales a `SamplingDistribution`'s weights by .8, 1 or 1.25, as a policy decides.

    A decision every H steps measures held-back training images, rewards the decision before by the sign of the change
    of e (the mean of the `reward` metrics), takes one Adam step on the policy, and draws an action for each bin. It
    works with any loss that has a distribution, whatever the training.

    A resumed run continues bit for bit, also between two decisions: actions are drawn by (seed, number of the
    decision), the distribution is a weight of the model, and the state holds everything else.

    Reference: Milbich's dissertation, sections 5.2 and 5.4; Roth, Milbich, Ommer: PADS, CVPR 2020. As in the
    public code, actions come from the present policy, the ratio refers to the copy of every fifth update, and V(s') is
    that of the present critic. The dissertation's e is R@1 + NMI, twice the mean, with the same sign; it asks for
    factors whose mean is 1, which .8 and 1.25 are not: they are reciprocals, so that an up and a down cancel.

    Args:
        distribution: of the trained `MinedLoss`.
        measure: called without arguments; returns figures of the present weights on the held-back images, including
            `metrics`. A pure function of the weights.
        metrics: names of the figures that the policy sees, in this order.
        reward: names of the figures whose mean is e.
        steps_per_decision: H, at least 1.
        max_steps: training steps in all, at least 1.
        rules: the learning rules of the policy.
        seed: of the policy's first weights and of the actions, at least 0.
        observe: called with each `Decision`.
        windows: lengths of the running means that the policy sees.

    Raises:
        InvalidInput: a number out of range, or no reward.

    Examples:
        >>> distribution = SamplingDistribution()
        >>> model = EmbeddingModel(backbone, head, MinedLoss(MarginLoss(), distribution))
        >>> teacher = PolicyAdaptedSampling(distribution, measure, ("R@1", "NMI"), ("R@1",), 30, max_steps=3000)
        >>> fit(model, ..., extra_callbacks=[teacher])
    """

    def __init__(
        self,
        distribution: SamplingDistribution,
        measure: Callable[[], Mapping[str, float]],
        metrics: Sequence[str],
        reward: Sequence[str],
        steps_per_decision: int,
        max_steps: int,
        rules: PolicyRules | None = None,
        seed: int = 0,
        observe: Callable[[Decision], None] | None = None,
        windows: Sequence[int] = (2, 8, 16, 32),
    ) -> None:
        super().__init__()
        if not reward:
            raise invalid("reward", received=tuple(reward), expected="one figure or more")
        self.distribution, self.measure, self.observe = distribution, measure, observe
        self.metrics, self.reward = tuple(metrics), tuple(reward)
        self.steps_per_decision = check_positive("steps_per_decision", steps_per_decision)
        self.max_steps = check_positive("max_steps", max_steps)
        self.rules, self.seed = rules or PolicyRules(), seed
        self.history = TrainingStateHistory(len(self.metrics), windows)
        size = self.history.size(distribution.num_bins)
        self.policy, self.old_policy = (SamplingPolicy(distribution.num_bins, size, seed=seed) for _ in range(2))
        self._synchronize()
        self.optimizer = FusedAdam(self.rules.learning_rate)
        self.optimizer.build(self.policy.trainable_variables)
        self._decisions, self._updates, self._steps = 0, 0, 0
        self._actions: np.ndarray | None = None
        self._measured, self._average_reward = 0.0, 0.0
        self._state = np.zeros(size, np.float32)

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        self._steps += 1
        if self._steps % self.steps_per_decision == 0:
            self.decide()

    def decide(self) -> None:
        """Measure, teach the policy by its last decision's effect, and decide again."""
        figures = self.measure()
        missing = {*self.metrics, *self.reward} - figures.keys()
        if missing:
            expected = "also " + ", ".join(sorted(missing))
            raise invalid("figures of the teacher", received=sorted(figures), expected=expected)
        self.history.append(np.array([figures[name] for name in self.metrics]))
        measured = float(np.mean([figures[name] for name in self.reward]))
        probabilities = self.distribution.probabilities()
        state = self.history.state(probabilities, min(self._steps / self.max_steps, 1.0))
        reward = None
        if self._actions is not None:
            reward = float(np.sign(measured - self._measured))
            if self.rules.estimator != RANDOM:
                self._teach(reward, measured, state)
        logits = self.policy(tf.constant(state)).logits
        if self.rules.estimator == RANDOM:
            logits = tf.zeros_like(logits)
        actions = act(logits, tf.constant([self.seed, self._decisions], tf.int64))
        if self.observe is not None:
            self.observe(Decision(self._decisions, probabilities, state, actions.numpy(), reward))
        self._take(actions.numpy(), state, measured)

    def _take(self, actions: np.ndarray, state: np.ndarray, measured: float) -> None:
        """Change the distribution, and store the decision with its grounds."""
        self.distribution.scale_by(np.array(FACTORS)[actions])
        self._actions, self._state, self._measured = actions, state, measured
        self._decisions += 1

    def _teach(self, reward: float, measured: float, state: np.ndarray) -> None:
        """Take an optimiser step on the policy for its last decision's reward."""
        rules, variables = self.rules, self.policy.trainable_variables
        following = self.policy(tf.constant(state)).value
        old_logits = self.old_policy(tf.constant(self._state)).logits
        with tf.GradientTape() as tape:
            logits, value = self.policy(tf.constant(self._state))
            advantage = tf.constant(reward)
            if rules.has_critic:
                advantage += rules.discount * following - value
            elif rules.estimator.endswith("ema"):
                advantage -= self._average_reward
            loss = actor_loss(logits, old_logits, tf.constant(self._actions), advantage, rules.estimator, rules.clip)
            if rules.has_critic:
                loss += critic_loss(value, tf.constant(measured))
        gradients = tape.gradient(loss, variables)
        pairs = [(tf.zeros(v.shape) if g is None else g, v) for g, v in zip(gradients, variables)]
        self.optimizer.apply_gradients(pairs)
        self._average_reward += rules.average_rate * (reward - self._average_reward)
        self._updates += 1
        if self._updates % rules.sync_every == 0:
            self._synchronize()

    def _synchronize(self) -> None:
        for old, present in zip(self.old_policy.weights, self.policy.weights):
            old.assign(present)

    def state(self) -> dict:
        """Return counters, last action and its e, and the rewards' average."""
        return {
            "decisions": self._decisions,
            "updates": self._updates,
            "steps": self._steps,
            "actions": None if self._actions is None else self._actions.tolist(),
            "measured": self._measured,
            "average_reward": self._average_reward,
        }

    def arrays(self) -> list[np.ndarray]:
        """Return the last state, the measurements, both policies and the optimiser."""
        return [self._state, self.history.measurements, *(np.array(variable) for variable in self._variables())]

    def restore(self, state: dict, arrays: list[np.ndarray]) -> None:
        """Resume from `state` and `arrays`."""
        self._decisions, self._updates, self._steps = state["decisions"], state["updates"], state["steps"]
        self._actions = None if state["actions"] is None else np.array(state["actions"], np.int64)
        self._measured, self._average_reward = state["measured"], state["average_reward"]
        self._state, self.history.measurements, *values = arrays
        for variable, value in zip(self._variables(), values, strict=True):
            variable.assign(value)

    def _variables(self) -> list[tf.Variable]:
        return [*self.policy.weights, *self.old_policy.weights, *self.optimizer.variables]
