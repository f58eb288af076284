"""A learning rate that drops at given training steps."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from common.errors import check_positive, invalid
from common.records import ResumableCallback


class StepSchedule(ResumableCallback):
    """Multiplies the learning rate by `factor` at given steps after any warm-up.

    The rate is a function of the step and of the rate at the start, so a resumed run reproduces it exactly.

    Reference: Milbich's dissertation, table 4.1 (ε, the epoch of the drop, and ν, its factor).

    Args:
        drops: training steps, increasing, each greater than 0: the numbers of steps made before each drop.
        factor: in (0, 1).

    Raises:
        InvalidInput: an argument is out of its range.

    Examples:
        >>> fit(model, ..., extra_callbacks=[StepSchedule([7000], factor=0.3)])
    """

    def __init__(self, drops: Sequence[int], factor: float) -> None:
        super().__init__()
        self.drops = tuple(check_positive("drops", step) for step in drops)
        if not self.drops or any(later <= step for step, later in itertools.pairwise(self.drops)):
            raise invalid("drops", received=tuple(drops), expected="at least one step, in increasing order")
        if not 0.0 < factor < 1.0:
            raise invalid("factor", received=factor, expected="a number in (0, 1)")
        self.factor = factor
        self._steps, self._first_rate = 0, 0.0

    def on_train_begin(self, logs: dict | None = None) -> None:
        if self._first_rate == 0.0:
            self._first_rate = float(np.asarray(self.model.optimizer.learning_rate))
        self._set_rate()

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        self._steps += 1
        if self._steps in self.drops:
            self._set_rate()

    def _set_rate(self) -> None:
        num_drops = sum(step <= self._steps for step in self.drops)
        self.model.optimizer.learning_rate.assign(self._first_rate * self.factor**num_drops)

    def state(self) -> dict:
        """Return the number of steps, and the rate at the start."""
        return {"steps": self._steps, "first_rate": self._first_rate}

    def restore(self, state: dict, arrays: list[np.ndarray]) -> None:
        """Resume from `state`; the rate follows when training begins."""
        self._steps, self._first_rate = state["steps"], state["first_rate"]
