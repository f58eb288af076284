"""The time and energy of a run, over all its sessions."""

from __future__ import annotations

import time

import numpy as np
import tensorflow as tf

from common.records.energy import GpuEnergy, PackageEnergy
from common.records.resumable_callback import ResumableCallback

_SECONDS_BETWEEN_READINGS = 60.0  # a package's counter overflows after half an hour or more


class TrainingCost(ResumableCallback):
    """Seconds and joules of a run over all its sessions.

    A resumed session continues from the cost in its checkpoint. The clock starts when this object is made. Energy is
    `None` as soon as one session could not read it.

    Args:
        meters: objects with `joules()`, by name; by default the processor packages', and the GPUs' if TensorFlow sees
            any.
    """

    def __init__(self, meters: dict | None = None) -> None:
        super().__init__()
        if meters is None:
            has_gpu = bool(tf.config.list_physical_devices("GPU"))
            meters = {"cpu_packages": PackageEnergy(), "gpus": GpuEnergy() if has_gpu else None}
        self._meters = meters
        self._started = self._read_at = time.monotonic()
        self._seconds_before, self._joules_before = 0.0, dict.fromkeys(meters, 0.0)

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        if time.monotonic() - self._read_at >= _SECONDS_BETWEEN_READINGS:
            self.state()

    def state(self) -> dict:
        """Return `seconds` and `joules` by meter, of all sessions so far."""
        self._read_at = time.monotonic()
        found = {name: meter.joules() if meter is not None else None for name, meter in self._meters.items()}
        before = self._joules_before
        joules = {
            name: None if value is None or before.get(name) is None else before[name] + value
            for name, value in found.items()
        }
        return {"seconds": self._seconds_before + self._read_at - self._started, "joules": joules}

    def restore(self, state: dict, arrays: list[np.ndarray]) -> None:
        """Add the earlier sessions."""
        self._seconds_before, self._joules_before = state["seconds"], state["joules"]

    def as_dict(self) -> dict:
        """Return `train_seconds` and `energy_joules` (by meter, `None` if unknown)."""
        state = self.state()
        joules = {name: None if value is None else round(value, 1) for name, value in state["joules"].items()}
        return {"train_seconds": round(state["seconds"], 2), "energy_joules": joules}
