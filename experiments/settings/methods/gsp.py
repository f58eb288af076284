"""Settings of generalized sum pooling and the zero-shot prediction loss."""

from __future__ import annotations

import dataclasses

import gsp_dml
from common.parameters import POSITIVE, SHARE
from experiments.parts.setting import Settings, setting


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrototypeSettings(Settings, title="Generalized sum pooling (gsp)"):
    """`--pooling=gsp`, alone or combined: the training of its prototypes."""

    prototype_multiplier: float = setting(
        "gsp: learning rate of prototypes over that of the network", 1.0, within=POSITIVE
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ZeroShotSettings(Settings, title="Zero-shot prediction loss (--pooling=gsp)"):
    """The loss over the attributes of GSP."""

    zero_shot_weight: float = setting("gsp: weight of the zero-shot prediction loss (lambda), in [0, 1]", within=SHARE)
    zero_shot_ridge: float = setting("gsp: ridge of the zero-shot regression", within=POSITIVE, argument="ridge")
    zero_shot_scale: float = setting("gsp: scale of the zero-shot logits", within=POSITIVE, argument="logit_scale")
    zero_shot_reduction: str = setting(
        "gsp: `sum_of_means` of the halves or the `mean` of the batch",
        choices=("sum_of_means", "mean"),
        argument="reduction",
    )
    zero_shot_halves: str = setting(
        "gsp: halves of the batch by `classes` or by `even_odd` positions",
        choices=("classes", "even_odd"),
        argument="halves",
    )
    label_initializer: str = setting(
        "gsp: first label embeddings, `he_normal` (default) or `he_normal_over_proxies` (over the classes)", "he_normal"
    )

    def build(self, num_classes: int, embedding_dim: int) -> gsp_dml.ZeroShotPredictionLoss | None:
        """Build the loss, or return None if its weight is 0."""
        if not self.zero_shot_weight:
            return None
        arguments = self.arguments()
        del arguments["zero_shot_weight"]  # of the sum
        return gsp_dml.ZeroShotPredictionLoss(num_classes, embedding_dim, **arguments)
