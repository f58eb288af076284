"""Batches that hold each of their examples twice, for two views of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from common.data.batches import batches_from_step


class SizedEpochs(Protocol):
    """A sampler of equal batches whose epochs are pure functions of their numbers."""

    @property
    def batch_size(self) -> int:
        """Indices in a batch."""

    @property
    def batches_per_epoch(self) -> int:
        """The number of batches in an epoch."""

    def epoch(self, epoch: int) -> np.ndarray:
        """Return indices `[batches_per_epoch, batch]` int64 of one epoch."""


class TwoViews:
    """Another sampler's batches with each index twice, `[i_1, ..., i_n, i_1, ..., i_n]`.

    The training augmentation draws by the place in the batch. So the first half of a batch is bit for bit the batch
    without views, and the second half shows the same images in other crops.

    Args:
        batches: any sampler.

    Examples:
        >>> batches = ClassBalancedBatches([5, 5, 7, 7, 9, 9], classes_per_batch=3, samples_per_class=2, seed=0)
        >>> TwoViews(batches).epoch(0).shape
        (1, 12)
    """

    def __init__(self, batches: SizedEpochs) -> None:
        self.batches = batches

    @property
    def batch_size(self) -> int:
        """The number of indices in a batch, twice the sampler's."""
        return 2 * self.batches.batch_size

    @property
    def batches_per_epoch(self) -> int:
        """Batches in an epoch, as many as without views."""
        return self.batches.batches_per_epoch

    def epoch(self, epoch: int) -> np.ndarray:
        """Return indices `[batches_per_epoch, 2 n]` int64 of one epoch."""
        return np.tile(self.batches.epoch(epoch), (1, 2))

    def from_step(self, step: int) -> Iterator[tuple[int, np.ndarray]]:
        """Yield (epoch, indices `[2 n]`) endlessly from training step `step` (from 0) on."""
        return batches_from_step(self, step)
