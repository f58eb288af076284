"""Clock and processor time of a run, over all its sessions."""

from __future__ import annotations

import math
import time

import numpy as np

from common.records.resumable_callback import ResumableCallback


class TrainingCost(ResumableCallback):
    """Clock and processor seconds of a run, over all its sessions and threads.

    A resumed session continues from the cost in its checkpoint. The clock starts when this object is made.
    """

    def __init__(self) -> None:
        super().__init__()
        self._started, self._seconds_before = time.monotonic(), 0.0
        self._processor_started, self._processor_before = time.process_time(), 0.0

    def state(self) -> dict:
        """Return the `seconds` and `processor_seconds` of all sessions so far."""
        return {
            "seconds": self._seconds_before + time.monotonic() - self._started,
            "processor_seconds": self._processor_before + time.process_time() - self._processor_started,
        }

    def restore(self, state: dict, arrays: list[np.ndarray]) -> None:
        """Add the earlier sessions."""
        self._seconds_before = state["seconds"]
        self._processor_before = state.get("processor_seconds", math.nan)  # older checkpoints do not know

    def as_dict(self) -> dict:
        """Return `train_seconds` and, if known, `processor_seconds`."""
        state = self.state()
        found = {"train_seconds": state["seconds"], "processor_seconds": state["processor_seconds"]}
        return {name: round(value, 2) for name, value in found.items() if not math.isnan(value)}
