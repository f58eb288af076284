"""The base class of losses' settings, and the context for building losses."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from experiments.settings.setting import Settings

if TYPE_CHECKING:
    from common.losses import MetricLoss


class LossContext(NamedTuple):
    """The inputs for building a loss that are not its own settings.

    Attributes:
        num_classes: training classes, for proxies and boundaries.
        embedding_dim: channels of an embedding.
        normalization: of embeddings and proxies, `unit`, `clip` or `none`.
        anchors: of losses that see a pair from one side: `embeddings`, or `references` for proxies as anchors.
    """

    num_classes: int
    embedding_dim: int
    normalization: str
    anchors: str = "embeddings"


@dataclasses.dataclass(frozen=True, kw_only=True)
class LossSettings(Settings):
    """Settings that build a loss.

    Attributes:
        has_proxies: whether the loss compares a batch with its own proxies; otherwise it compares pairs, and allows a
            memory, drawn triplets and CCP.
        sees_one_side: whether a pair loss sees a pair from one side only; under CCP, the sample's or the proxy's
            (`LossContext.anchors`).
    """

    has_proxies: ClassVar[bool] = False
    sees_one_side: ClassVar[bool] = False

    def build(self, context: LossContext) -> MetricLoss:
        """Build the loss with these settings.

        Args:
            context: see `LossContext`.
        """
        raise NotImplementedError
