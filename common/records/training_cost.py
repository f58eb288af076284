"""The time of a run, over all its sessions."""

from __future__ import annotations

import time

import numpy as np

from common.records.resumable_callback import ResumableCallback


class TrainingCost(ResumableCallback):
    """Seconds of a run over all its sessions.

    A resumed session continues from the cost in its checkpoint. The clock starts when this object is made.
    """

    def __init__(self) -> None:
        super().__init__()
        self._started, self._seconds_before = time.monotonic(), 0.0

    def state(self) -> dict:
        """Return the `seconds` of all sessions so far."""
        return {"seconds": self._seconds_before + time.monotonic() - self._started}

    def restore(self, state: dict, arrays: list[np.ndarray]) -> None:
        """Add the earlier sessions."""
        self._seconds_before = state["seconds"]

    def as_dict(self) -> dict:
        """Return `train_seconds`."""
        return {"train_seconds": round(self.state()["seconds"], 2)}
