"""A training run's state for a sampling policy: measurements, running means, progress."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from common.errors import check_positive, invalid


class TrainingStateHistory:
    """Measurements of a training run as a state vector.

    The state concatenates the last `length` measurements, oldest first; the mean of the last w measurements for each
    window w; the sampling distribution; the completed share of the training. If there are fewer than `length`
    measurements, the first one fills the missing places; a window averages the available ones.

    Reference: Milbich's dissertation, section 5.4 (windows 2, 8, 16, 32 and 20 measurements), with the fillings of the
    public code.

    Args:
        num_metrics: K, figures in a measurement.
        windows: lengths of the running means, each at least 1.
        length: number of single measurements, at least 1.

    Examples:
        >>> history = TrainingStateHistory(num_metrics=7)
        >>> history.append(np.zeros(7))
        >>> history.state(np.full(30, 1 / 30), progress=0.0).shape
        (199,)
    """

    def __init__(self, num_metrics: int, windows: Sequence[int] = (2, 8, 16, 32), length: int = 20) -> None:
        self.num_metrics = check_positive("num_metrics", num_metrics)
        self.windows = tuple(check_positive("windows", window) for window in windows)
        self.length = check_positive("length", length)
        self.measurements = np.zeros((0, num_metrics), np.float64)  # as many as a state can need, oldest first

    def append(self, metrics: np.ndarray) -> None:
        """Append a measurement `[num_metrics]`.

        Raises:
            InvalidInput: another number of figures, or one that is not finite.
        """
        metrics = np.asarray(metrics, np.float64)
        if metrics.shape != (self.num_metrics,) or not np.isfinite(metrics).all():
            raise invalid("metrics", received=metrics, expected=f"{self.num_metrics} finite numbers")
        longest = max(self.length, *self.windows) if self.windows else self.length
        self.measurements = np.concatenate([self.measurements, metrics[None]])[-longest:]

    def size(self, num_bins: int) -> int:
        """Return a state's size: `(length + windows) K + num_bins + 1`."""
        return (self.length + len(self.windows)) * self.num_metrics + num_bins + 1

    def state(self, probabilities: np.ndarray, progress: float) -> np.ndarray:
        """Return the state, float32 `[size(num_bins)]`.

        Args:
            probabilities: the sampling distribution, adding up to 1, `[num_bins]`.
            progress: completed share of the training steps, in [0, 1].

        Raises:
            InvalidInput: there has been no measurement.
        """
        if not len(self.measurements):
            raise invalid("history", received="no measurement", expected="at least one: call append first")
        recent = self.measurements[-self.length :]
        filling = np.repeat(recent[:1], self.length - len(recent), axis=0)
        means = [self.measurements[-window:].mean(axis=0) for window in self.windows]
        parts = [filling.ravel(), recent.ravel(), *means, np.asarray(probabilities, np.float64), [progress]]
        return np.concatenate(parts).astype(np.float32)
