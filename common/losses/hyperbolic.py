"""A cross-entropy over pairs, with distances in hyperbolic space."""

from __future__ import annotations

import math

import tensorflow as tf
from tensorflow import keras

from common.errors import check_positive, invalid
from common.losses.rank_losses import AnchoredLoss
from common.ops.hyperbolic import pairwise_hyperbolic_distances
from common.ops.reductions import log_sum_exp, masked_mean
from common.parameters import Anchors, LossArguments, Positive, Unpack, checked
from common.references.comparison import Comparison

LARGEST_ARGUMENT = 20.0  # of √c r, in float32


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class HyperbolicLoss(AnchoredLoss):
    """Hyp-ViT: cross-entropy of each positive pair against its anchor's negatives, over distances D.

    `mean_{a, p} log(1 + Σ_{n in N(a)} exp((D_ap - D_an) / τ))` over the positive pairs of anchors with a negative. The
    normalised embedding times the radius r is a tangent vector at the origin of the Poincaré ball of curvature -c; D
    is the distance of the points that the exponential map gives (`common.ops.hyperbolic`).

    With `"clip"` no tangent vector is longer than r, and short ones stay: the clipping of features, for a layer before
    it that learns their scale. Retrieve by the same distance then: `common.retrieval.lorentz_factors`. With `"unit"`
    all points lie on one sphere around the origin, so D grows with the angle alone: every search by cosine or by
    Euclidean distance is exact.

    Reference: Ermolov, Mirvakhabova, Khrulkov, Sebe, Oseledets: Hyperbolic Vision Transformers, CVPR 2022 (c = .1,
    τ = .2, r = 2.3; two images of a class there); Guo, Wang, Chen, Yu: Clipped Hyperbolic Classifiers Are
    Super-Hyperbolic Classifiers, CVPR 2022 (the clipping).

    Gradient: exact; zero between points at distance zero.

    Args:
        curvature: c of the curvature -c, greater than 0.
        radius: r, length of the longest tangent vector, greater than 0, and `√c r` at most 20.
        temperature: τ, greater than 0.
        anchors: `"embeddings"` or `"references"`; see `MultiSimilarityLoss`.
        **kwargs: `normalization`, `name`, `dtype`; see `MetricLoss`.

    Raises:
        InvalidInput: an argument is out of its range.

    Examples:
        >>> HyperbolicLoss(normalization="clip")(tf.random.normal([32, 128]), tf.repeat(tf.range(16), 2))
    """

    @checked
    def __init__(
        self,
        curvature: Positive = 0.1,
        radius: Positive = 2.3,
        temperature: Positive = 0.2,
        anchors: Anchors = "embeddings",
        **kwargs: Unpack[LossArguments],
    ) -> None:
        super().__init__(anchors, **kwargs)
        self.curvature, self.radius = check_tangents(curvature, radius)
        self.temperature = temperature

    def of_pairs(self, pairs: Comparison) -> tf.Tensor:
        """Return the mean over positive pairs.

        Args:
            pairs: the anchors and references.
        """
        tangents = self.radius * pairs.anchors, self.radius * pairs.references
        logits = -pairwise_hyperbolic_distances(*tangents, self.curvature) / self.temperature
        terms = tf.math.softplus(log_sum_exp(logits, pairs.negative)[:, None] - logits)
        has_negatives = tf.reduce_any(pairs.negative, axis=1, keepdims=True)
        return masked_mean(pairs.weighted(terms), pairs.positive & has_negatives)

    def get_config(self) -> dict:
        """Return the constructor's arguments."""
        own = {"curvature": self.curvature, "radius": self.radius, "temperature": self.temperature}
        return {**super().get_config(), **own}


def check_tangents(curvature: float, radius: float) -> tuple[float, float]:
    """Return curvature and radius, or raise `InvalidInput` if distances may overflow."""
    check_positive("curvature", curvature)
    check_positive("radius", radius)
    if math.sqrt(curvature) * radius > LARGEST_ARGUMENT:
        expected = f"at most {LARGEST_ARGUMENT / math.sqrt(curvature):g} with curvature={curvature:g}"
        raise invalid("radius", received=radius, expected=expected, fix="Distances would overflow in float32.")
    return curvature, radius
