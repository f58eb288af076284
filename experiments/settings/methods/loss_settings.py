"""The base of every loss's settings, and the context in which a loss is built."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from experiments.settings.setting import Settings

if TYPE_CHECKING:
    from common.losses import MetricLoss


class LossContext(NamedTuple):
    """What a loss needs and no setting of its own says.

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
    """Settings of a loss, which they build.

    Attributes:
        has_proxies: whether the loss compares a batch with proxies of its own; else it compares pairs, and also takes
            a memory, drawn triplets and CCP.
        sees_one_side: whether a pair loss sees a pair from one of its sides; under CCP that is the sample's or the
            proxy's (`LossContext.anchors`).
    """

    has_proxies: ClassVar[bool] = False
    sees_one_side: ClassVar[bool] = False

    def build(self, context: LossContext) -> MetricLoss:
        """The loss with these settings.

        Args:
            context: see `LossContext`.
        """
        raise NotImplementedError
