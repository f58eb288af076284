"""Zero-shot prediction and the rate of prototypes as a method of a run."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Literal

import numpy as np

import gsp_dml
from common.parameters import Positive, Share
from common.training import method
from common.training.method import Attached, Run

if TYPE_CHECKING:
    import tensorflow as tf

    from common.training import EmbeddingModel

NUM_WATCHED = 256  # images whose perplexity is recorded at each evaluation


@dataclasses.dataclass(frozen=True, kw_only=True)
class Method(method.Method):
    """Zero-shot prediction over the attributes of generalized sum pooling.

    Args:
        prototype_multiplier: learning rate of prototypes over that of the network.
        weight: weight of the zero-shot prediction loss (lambda), in [0, 1].
        ridge: ridge of the zero-shot regression.
        scale: scale of the zero-shot logits.
        reduction: `sum_of_means` of the halves or the `mean` of the batch.
        halves: halves of the batch by `classes` or by `even_odd` positions.
        label_initializer: first label embeddings, `he_normal` (default) or `he_normal_over_proxies` (over the classes).
    """

    prototype_multiplier: Positive = 1.0
    weight: Share
    ridge: Positive
    scale: Positive
    reduction: Literal["sum_of_means", "mean"]
    halves: Literal["classes", "even_odd"]
    label_initializer: str = "he_normal"

    def check_batches(self, class_places: np.ndarray | None) -> None:
        """Refuse batches that would have a class in both halves."""
        if self.weight:
            from gsp_dml.zero_shot_halves import check_halves

            check_halves(class_places, self.halves)

    def attribute_loss(self, num_classes: int, embedding_dim: int) -> gsp_dml.ZeroShotPredictionLoss | None:
        """Build the loss, or return None if its weight is 0."""
        if not self.weight:
            return None
        return gsp_dml.ZeroShotPredictionLoss(
            num_classes,
            embedding_dim,
            ridge=self.ridge,
            logit_scale=self.scale,
            reduction=self.reduction,
            halves=self.halves,
            label_initializer=self.label_initializer,
        )

    def attach(self, run: Run) -> Attached:
        """Return the rate of prototypes; record the perplexities of some validation images."""
        from gsp_dml.perplexity_callback import WeightPerplexity  # loads Keras

        watched = np.unique(np.linspace(0, len(run.queries) - 1, NUM_WATCHED).astype(int))
        perplexities = WeightPerplexity(run.model, run.inputs.repeated(run.queries.subset(watched)))
        return Attached(callbacks=[perplexities], rates=self.rates(run.model))

    def rates(self, model: EmbeddingModel) -> list[tuple[tf.Variable, float]]:
        """Return the rate of prototypes."""
        return [(model.head.pooling.prototypes, self.prototype_multiplier)]
