"""The record of a policy that adapts a sampling distribution."""

from __future__ import annotations

import numpy as np

from common.records import ResumableCallback
from milbich_dml.policy_adapted_sampling import Decision
from milbich_dml.sampling_distribution import SamplingDistribution


class SamplingRecord(ResumableCallback):
    """A policy's decisions, saved in each checkpoint, so that resumed records are complete.

    Args:
        distribution: the adapted one.
        steps_per_decision: H.

    Examples:
        >>> record = SamplingRecord(distribution, 30)
        >>> teacher = PolicyAdaptedSampling(distribution, measure, metrics, reward, 30, 3000, observe=record.observe)
        >>> fit(model, ..., extra_callbacks=[teacher, record])
    """

    def __init__(self, distribution: SamplingDistribution, steps_per_decision: int) -> None:
        super().__init__()
        self.distribution, self.steps_per_decision = distribution, steps_per_decision
        bins = distribution.num_bins
        self._probabilities, self._actions = np.zeros((0, bins)), np.zeros((0, bins), np.int64)
        self._rewards = np.zeros(0)

    def observe(self, decision: Decision) -> None:
        """Add a decision; `PolicyAdaptedSampling` calls it."""
        self._probabilities = np.vstack([self._probabilities, decision.probabilities])
        self._actions = np.vstack([self._actions, decision.actions])
        self._rewards = np.append(self._rewards, np.nan if decision.reward is None else decision.reward)

    def __len__(self) -> int:
        return len(self._rewards)

    def as_arrays(self) -> dict[str, np.ndarray]:
        """Return the decisions by name.

        Returns:
            `steps` `[decisions]`; `probabilities` (before the action) and `actions` `[decisions, bins]`; `rewards`
            `[decisions]`, each of the decision before, so the first is NaN; `edges` of the bins `[bins + 1]`.
        """
        return {
            "steps": self.steps_per_decision * np.arange(1, len(self) + 1),
            "probabilities": self._probabilities,
            "actions": self._actions,
            "rewards": self._rewards,
            "edges": self.distribution.edges,
        }

    def state(self) -> dict:
        """Return an empty state, since the arrays hold everything."""
        return {}

    def arrays(self) -> list[np.ndarray]:
        """Return distributions, actions and rewards."""
        return [self._probabilities, self._actions, self._rewards]

    def restore(self, state: dict, arrays: list[np.ndarray]) -> None:
        """Restore the record of a checkpoint."""
        del state
        self._probabilities, self._actions, self._rewards = arrays
