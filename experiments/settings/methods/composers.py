"""Settings of a pair loss's composers: cross-batch memory, and rho of drawn triplets."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, ClassVar

from common import losses
from experiments.settings.setting import NOT_NEGATIVE, POSITIVE, SHARE, Settings, setting

if TYPE_CHECKING:
    from common.losses import CrossBatchMemoryLoss, MetricLoss


@dataclasses.dataclass(frozen=True, kw_only=True)
class MemorySettings(Settings):
    """`+xbm` of a loss's name."""

    title: ClassVar[str] = "Cross-batch memory (+xbm)"

    xbm_batches: int = setting("xbm: batches in the memory", within=POSITIVE, stored_as="memory_batches")
    xbm_start: int = setting(
        "xbm: update steps before the memory is used", within=NOT_NEGATIVE, stored_as="memory_start"
    )
    xbm_fills_first: bool = setting(
        "xbm: `xbm_start` counts from the moment the memory is full", stored_as="memory_fills_first"
    )
    xbm_holds_batch: bool = setting(
        "xbm: the memory holds the current batch when it is compared", stored_as="memory_holds_batch"
    )

    def around(self, loss: MetricLoss, batch_size: int, embedding_dim: int) -> CrossBatchMemoryLoss:
        """Wrap `loss` to compare with the batch and the memory.

        Args:
            loss: a pair loss, perhaps over drawn tuples.
            batch_size: images in a batch.
            embedding_dim: channels of an embedding.
        """
        return losses.CrossBatchMemoryLoss(
            loss,
            memory_size=self.xbm_batches * batch_size,
            embedding_dim=embedding_dim,
            start_step=self.xbm_start,
            fill_before_start=self.xbm_fills_first,
            enqueue_first=self.xbm_holds_batch,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class RhoSettings(Settings):
    """`+rho` of a loss's name: drawn triplets whose negative is sometimes a positive."""

    title: ClassVar[str] = "rho-regularisation (+rho)"

    p_switch: float = setting("rho: how often the positive takes the negative's place, in [0, 1]", within=SHARE)
