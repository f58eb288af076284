"""Settings of generalized sum pooling and the zero-shot prediction loss."""

from __future__ import annotations

import dataclasses

import gsp_dml
from experiments.settings.setting import NOT_NEGATIVE, POSITIVE, SHARE, NumberRange, Settings, setting


@dataclasses.dataclass(frozen=True, kw_only=True)
class TransportPoolingSettings(Settings, title="Generalized sum pooling (--pooling=gsp)"):
    """`--pooling=gsp`, alone or combined."""

    num_prototypes: int = setting("gsp: prototypes", within=POSITIVE)
    transport_ratio: float = setting(
        "gsp: share of the features that is pooled (mu), in (0, 1]", within=NumberRange(0, 1, high_included=True)
    )
    smoothing: float = setting("gsp: inverse weight of the entropy (epsilon)", within=POSITIVE)
    solver: str = setting("gsp: `exact` or `fixed_point`", choices=("exact", "fixed_point"))
    num_iterations: int | None = setting("gsp: iterations of the fixed-point solver", None, within=POSITIVE)
    gsp_memory_size: int = setting(
        "gsp: average embeddings collected before prototypes are chosen",
        within=POSITIVE,
        stored_as="memory_size",
        argument="memory_size",
    )
    gsp_memory_features: str = setting(
        "gsp: memory of `image_averages` (default) or of `local_features`",
        "image_averages",
        choices=("image_averages", "local_features"),
        stored_as="memory_features",
        argument="memory_features",
    )
    gsp_memory_delay: int = setting(
        "gsp: update steps before the memory is filled (default: none)",
        0,
        within=NOT_NEGATIVE,
        stored_as="memory_delay",
        argument="memory_delay",
    )
    prototype_multiplier: float = setting(
        "gsp: learning rate of prototypes over that of the network", 1.0, within=POSITIVE
    )

    def build(self, batch_size: int) -> gsp_dml.GeneralizedSumPooling:
        """Build the pooling, which also returns its attributes."""
        arguments = self.arguments() | {"memory_delay": self.gsp_memory_delay * batch_size}  # in images
        del arguments["prototype_multiplier"]  # of the optimizer
        return gsp_dml.GeneralizedSumPooling(**arguments, return_attributes=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ZeroShotSettings(Settings, title="Zero-shot prediction loss (--pooling=gsp)"):
    """The loss over the attributes of GSP."""

    zero_shot_weight: float = setting("gsp: weight of the zero-shot prediction loss (lambda), in [0, 1]", within=SHARE)
    zero_shot_ridge: float = setting("gsp: ridge of the zero-shot regression", within=POSITIVE)
    zero_shot_scale: float = setting("gsp: scale of the zero-shot logits", within=POSITIVE)
    zero_shot_reduction: str = setting(
        "gsp: `sum_of_means` of the halves or the `mean` of the batch", choices=("sum_of_means", "mean")
    )
    zero_shot_halves: str = setting(
        "gsp: halves of the batch by `classes` or by `even_odd` positions", choices=("classes", "even_odd")
    )
    label_initializer: str = setting(
        "gsp: first label embeddings, `he_normal` (default) or `he_normal_over_proxies` (over the classes)", "he_normal"
    )

    def build(self, num_classes: int, embedding_dim: int) -> gsp_dml.ZeroShotPredictionLoss | None:
        """Build the loss, or return None if its weight is 0."""
        if not self.zero_shot_weight:
            return None
        return gsp_dml.ZeroShotPredictionLoss(
            num_classes,
            embedding_dim,
            ridge=self.zero_shot_ridge,
            logit_scale=self.zero_shot_scale,
            reduction=self.zero_shot_reduction,
            halves=self.zero_shot_halves,
            label_initializer=self.label_initializer,
        )
