"""A schedule for the distances of negatives, instead of PADS' policy."""

from __future__ import annotations

import numpy as np

from common.records import ResumableCallback
from milbich_dml import Decision, SamplingRecord
from milbich_dml.distance_bins import SMALLEST
from milbich_dml.pads import LINEAR

_INTERVAL, _LAST_POWER = 0.4, 10.0


class Curriculum(ResumableCallback):
    """Moves a distribution of negatives from far to near by a schedule.

    t is the completed share of training. `linear`: weight 1 in an interval of width .4, which falls from the upper end
    of the bins to the lower. `non_linear`: weight `(1 - x)^(10 t)` of a bin at the place x in [0, 1], the nearest at 0;
    it begins as drawing by distance does.

    Args:
        schedule: `linear` or `non_linear`.
        steps_per_change: update steps between two changes.
        max_steps: of the training.
        record: of the distribution, which it changes.

    Reference: Milbich's dissertation, table 5.4; its schedules (figure 5.4) are not printed as numbers, these are ours.
    """

    def __init__(self, schedule: str, steps_per_change: int, max_steps: int, record: SamplingRecord) -> None:
        super().__init__()
        self.schedule, self.steps_per_change, self.max_steps = schedule, steps_per_change, max_steps
        self.record, self.distribution = record, record.distribution
        self._steps = 0

    def weights(self, share: float) -> np.ndarray:
        """Return the weights of the bins at a share of training, `[bins]`."""
        edges = self.distribution.edges
        centers, width = (edges[1:] + edges[:-1]) / 2, edges[1] - edges[0]
        if self.schedule == LINEAR:
            half = max(_INTERVAL, width) / 2
            center = (1 - share) * (edges[-1] - half) + share * (edges[0] + half)
            return np.where(np.abs(centers - center) <= half, 1.0, SMALLEST)
        return np.maximum((1 - np.linspace(0, 1, len(centers))) ** (_LAST_POWER * share), SMALLEST)

    def on_train_begin(self, logs: dict | None = None) -> None:
        self._change()

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        self._steps += 1
        if self._steps % self.steps_per_change == 0:
            self._change()
            kept = np.zeros(self.distribution.num_bins, np.int64)
            number = self._steps // self.steps_per_change - 1
            found = self.distribution.probabilities()
            self.record.observe(Decision(number, found, np.zeros(0), kept, None))

    def _change(self) -> None:
        changed = self._steps - self._steps % self.steps_per_change
        self.distribution.log_weights.assign(np.log(self.weights(min(changed / self.max_steps, 1.0))))

    def state(self) -> dict:
        return {"steps": self._steps}

    def restore(self, state: dict, arrays: list[np.ndarray]) -> None:
        self._steps = state["steps"]
