"""The policy that changes a sampling distribution, and its losses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf
from tensorflow import keras

from common.errors import check_choice, check_positive
from common.miners.triplets import draw
from milbich_dml.pads import ESTIMATORS


class PolicyOutputs(NamedTuple):
    """A policy's outputs for a state."""

    logits: tf.Tensor  # [bins, actions]: of the actions of each bin, independently of the other bins
    value: tf.Tensor  # a scalar: the critic's expectation


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class SamplingPolicy(keras.layers.Layer):
    """A fully connected network from a state to action logits and a value.

    Each bin has its own logits.

    Reference: Milbich's dissertation, section 5.2.2 (two layers of 128 units, softmax over three actions for each bin)
    with the value as a further output, as in the public code.

    Args:
        num_bins: bins of the distribution.
        state_size: components of a state.
        num_actions: actions for each bin.
        hidden: units of the hidden layers.
        seed: of the first weights.
        **kwargs: `name`, `dtype`.

    Input shape: `[state_size]`. Output: `PolicyOutputs`.

    Examples:
        >>> logits, value = SamplingPolicy(num_bins=30, state_size=199)(tf.zeros([199]))
    """

    def __init__(
        self,
        num_bins: int,
        state_size: int,
        num_actions: int = 3,
        hidden: Sequence[int] = (128, 128),
        seed: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**{"dtype": "float32", **kwargs})
        self.num_bins, self.state_size = check_positive("num_bins", num_bins), check_positive("state_size", state_size)
        self.num_actions, self.hidden = check_positive("num_actions", num_actions), tuple(hidden)
        self.seed = seed
        sizes = [state_size, *self.hidden]
        kernels = [*zip(sizes, sizes[1:]), (sizes[-1], num_bins * num_actions), (sizes[-1], 1)]
        layers = []
        for layer, shape in enumerate(kernels):
            initializer = keras.initializers.GlorotUniform(seed=seed * len(kernels) + layer)
            kernel = self.add_weight(name=f"kernel_{layer}", shape=shape, initializer=initializer)
            layers.append((kernel, self.add_weight(name=f"bias_{layer}", shape=shape[1:], initializer="zeros")))
        self.layers_of_weights = tuple(layers)
        self.built = True  # the constructor makes all of the state

    def call(self, state: tf.Tensor) -> PolicyOutputs:
        """Return logits `[bins, actions]` and the value of a state `[state_size]`."""
        features = tf.cast(state, self.compute_dtype)[None]
        *hidden, actor, critic = self.layers_of_weights
        for layer in hidden:
            features = tf.nn.relu(_affine(features, layer))
        logits = tf.reshape(_affine(features, actor), [self.num_bins, self.num_actions])
        return PolicyOutputs(logits, tf.reshape(_affine(features, critic), []))

    def get_config(self) -> dict:
        """Return the constructor's arguments."""
        return {
            **super().get_config(),
            "num_bins": self.num_bins,
            "state_size": self.state_size,
            "num_actions": self.num_actions,
            "hidden": list(self.hidden),
            "seed": self.seed,
        }


def act(logits: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Draw an action for each bin by the softmax of its logits.

    It is a pure function of logits and seed.

    Args:
        logits: `[bins, actions]`.
        seed: two integers, `[2]`.

    Returns:
        int64 `[bins]`.
    """
    return draw(tf.ones_like(logits, tf.bool), seed, 0, logits)


def actor_loss(
    logits: tf.Tensor,
    old_logits: tf.Tensor,
    actions: tf.Tensor,
    advantage: tf.Tensor,
    estimator: str = "ppo_a2c",
    clip: float = 0.2,
) -> tf.Tensor:
    """Compute a loss whose gradient favours actions with a positive advantage A.

    - PPO: `-mean_m min(ϱ_m A, clip(ϱ_m, 1 ± ε) A)`, `ϱ_m = π(a_m | s) / π_old(a_m | s)`.
    - REINFORCE: `-mean_m log π(a_m | s) A`, with the gradient of PPO at ϱ = 1.

    Reference: Milbich's dissertation, equations 5.10 and 5.11, and table 5.13.

    Args:
        logits: of the learning policy, `[bins, actions]`.
        old_logits: of its older copy, for PPO, `[bins, actions]`; without gradient.
        actions: integers, `[bins]`.
        advantage: A, a scalar; without gradient.
        estimator: one of `ESTIMATORS`.
        clip: ε, greater than 0.

    Returns:
        A scalar. Exact gradient in the logits.
    """
    check_choice("estimator", estimator, ESTIMATORS)
    check_positive("clip", clip)
    advantage = tf.stop_gradient(tf.cast(advantage, logits.dtype))
    chosen = _log_chances(logits, actions)
    if estimator.startswith("reinforce"):
        return -tf.reduce_mean(chosen) * advantage
    ratios = tf.exp(chosen - tf.stop_gradient(_log_chances(old_logits, actions)))
    clipped = tf.clip_by_value(ratios, 1.0 - clip, 1.0 + clip)
    return -tf.reduce_mean(tf.minimum(ratios * advantage, clipped * advantage))


def critic_loss(value: tf.Tensor, measured: tf.Tensor) -> tf.Tensor:
    """Return `½ (V(s) - e)²`, a scalar.

    The critic learns the measured figure itself, as in the public code.
    """
    return 0.5 * (value - tf.cast(measured, value.dtype)) ** 2


def _log_chances(logits: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
    """Return `log π(a_m)`, `[bins]`."""
    return tf.gather(tf.nn.log_softmax(logits, axis=1), actions, batch_dims=1)


def _affine(features: tf.Tensor, layer: tuple[tf.Variable, tf.Variable]) -> tf.Tensor:
    kernel, bias = (tf.convert_to_tensor(weight) for weight in layer)
    return tf.matmul(features, kernel) + bias
