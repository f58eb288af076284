"""HIER: a hierarchy of embeddings beyond their classes, by proxies in hyperbolic space."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf
from tensorflow import keras

from common.errors import invalid
from common.losses.hyperbolic import check_tangents
from common.losses.metric_loss import MetricLoss
from common.miners.triplets import uniform_of
from common.ops.hyperbolic import pairwise_hyperbolic_distances
from common.ops.normalization import normalize
from common.ops.pair_masks import batch_labels, nan_unless, share_a_label
from common.ops.reductions import masked_mean
from common.parameters import Count, CountOrZero, LossArguments, NotNegative, Positive, Unpack, checked
from common.references.reference_set import References

DRAWS = 4  # of one seed, that `draw_hierarchy` takes


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class HIERLoss(MetricLoss):
    """HIER: groups related items under common ancestors, proxies in hyperbolic space.

    `mean_(i,j,k) [D_i(ρ_ij) - D_i(ρ_ijk) + m]₊ + [D_j(ρ_ij) - D_j(ρ_ijk) + m]₊ + [D_k(ρ_ijk) - D_k(ρ_ij) + m]₊` of
    triplets of the batch, plus the same of triplets of the proxies. D is the hyperbolic distance of points as in
    `HyperbolicLoss`; the lowest common ancestors ρ_ij and ρ_ijk are proxies drawn by `softmax_ρ(-max D(ρ) / τ)`, the
    maximum over two or three items. Triplets with one proxy as both count as 0. i and j are among the K nearest of each
    other; i and k are not. Items that share a label are nearer than all others. Proxies have no class.

    Proxies are tangent vectors of at most the length r. Draws are a function of `seed` and a step counter, which
    advances in calls with `training=True` and is saved with the model.

    Reference: Kim, Jeong, Kwak: HIER: Metric Learning Beyond Class Labels via Hierarchical Regularization, CVPR 2023
    (weight .5 and K = 20 beside proxy anchor; proxies learn 50 times as fast as the network). Their code also draws i
    as k, skips items with a single related one, and rescales gradients by the metric of the Poincaré ball.

    Gradient: straight-through to the softmax that ancestors are drawn by, with triplets fixed; else exact.

    Args:
        embedding_dim: number of components of an embedding.
        num_proxies: possible ancestors, at least 2. Time and memory of a step grow with the square.
        num_neighbors: K, at least 2; the item itself counts.
        triplets_per_anchor: triplets of each i, at least 1.
        margin: m, at least 0.
        temperature: τ, greater than 0.
        curvature: c of the curvature -c, greater than 0.
        radius: r, length of the longest tangent vector, greater than 0, and `√c r` at most 20.
        seed: of the draws, at least 0.
        initializer: of the proxies, a Keras initializer; None: normal, with the root mean square length .9 r.
        **kwargs: `normalization`, `name`, `dtype`; see `MetricLoss`.

    Call arguments: those of `MetricLoss`, and `training`; references are ignored.

    Raises:
        InvalidInput: an argument is out of its range.

    Examples:
        >>> WeightedSumLoss([ProxyAnchorLoss(100, 128), HIERLoss(128)], [1.0, 0.5])(embeddings, labels, training=True)
    """

    @checked
    def __init__(
        self,
        embedding_dim: Count,
        *,
        num_proxies: int = 512,
        num_neighbors: int = 20,
        triplets_per_anchor: Count = 50,
        margin: NotNegative = 0.1,
        temperature: Positive = 0.1,
        curvature: float = 0.1,
        radius: float = 2.3,
        seed: CountOrZero = 0,
        initializer: str | dict | keras.initializers.Initializer | None = None,
        **kwargs: Unpack[LossArguments],
    ) -> None:
        super().__init__(**kwargs)
        for name, count in (("num_proxies", num_proxies), ("num_neighbors", num_neighbors)):
            if not count >= 2:
                raise invalid(name, received=count, expected="at least 2")
        self.embedding_dim = embedding_dim
        self.num_proxies, self.num_neighbors = num_proxies, num_neighbors
        self.triplets_per_anchor = triplets_per_anchor
        self.margin = margin
        self.temperature = temperature
        self.curvature, self.radius = check_tangents(curvature, radius)
        self.seed = seed
        self.initializer = keras.initializers.get(initializer)
        self.proxies = self.add_weight(
            name="proxies",
            shape=(num_proxies, embedding_dim),
            initializer=self.initializer or keras.initializers.RandomNormal(stddev=0.9 * radius / embedding_dim**0.5),
            trainable=True,
        )
        self.step = self.add_weight(name="step", shape=(), dtype="int64", initializer="zeros", trainable=False)

    @property
    def proxy_variables(self) -> list[tf.Variable]:
        """The proxies."""
        return [self.proxies]

    def call(
        self,
        embeddings: tf.Tensor,
        labels: tf.Tensor,
        references: References | None = None,
        training: bool | None = None,
    ) -> tf.Tensor:
        """Return the loss of a batch; see the class."""
        del references
        seed = tf.stack([tf.constant(self.seed, tf.int64), tf.convert_to_tensor(self.step)])
        if training:
            self.step.assign_add(1)
        labels = batch_labels(labels)
        items = self.radius * normalize(embeddings, self.normalization)
        proxies = self.radius * normalize(tf.convert_to_tensor(self.proxies) / self.radius, "clip")
        same = share_a_label(labels, labels)
        return self._of(items, proxies, same, seed, 0) + self._of(proxies, proxies, None, seed, DRAWS)

    def _of(
        self, items: tf.Tensor, proxies: tf.Tensor, same: tf.Tensor | None, seed: tf.Tensor, purpose: int
    ) -> tf.Tensor:
        """Return the loss of the triplets of some items."""
        points = tf.stop_gradient(items)
        # In the order of exp(-D), which would underflow.
        nearness = 1.0 / (1.0 + pairwise_hyperbolic_distances(points, points, self.curvature))
        if same is not None:
            nearness += tf.cast(same, nearness.dtype)
        related = reciprocal_neighbors(nearness, self.num_neighbors)
        draws = draw_hierarchy(related, self.triplets_per_anchor, self.num_proxies, seed, purpose)
        distances = pairwise_hyperbolic_distances(items, proxies, self.curvature)
        value = hierarchical_triplet_loss(distances, draws, self.temperature, self.margin)
        return nan_unless(tf.reduce_all(tf.math.is_finite(distances)), value)  # even if its item is in no triplet

    def get_config(self) -> dict:
        """Return the constructor's arguments."""
        return {
            **super().get_config(),
            "embedding_dim": self.embedding_dim,
            "num_proxies": self.num_proxies,
            "num_neighbors": self.num_neighbors,
            "triplets_per_anchor": self.triplets_per_anchor,
            "margin": self.margin,
            "temperature": self.temperature,
            "curvature": self.curvature,
            "radius": self.radius,
            "seed": self.seed,
            "initializer": None if self.initializer is None else keras.initializers.serialize(self.initializer),
        }


class HierarchyDraws(NamedTuple):
    """Triplets (i, j, k) of each item i, and noise that chooses ancestors."""

    related: tf.Tensor  # j, int32 [items, triplets]
    unrelated: tf.Tensor  # k, int32 [items, triplets]
    used: tf.Tensor  # bool [items]: those with an item of either kind; the triplets of others are arbitrary
    noise: tuple[tf.Tensor, tf.Tensor]  # float32 [items, triplets, proxies]: Gumbel's, for ρ_ij and for ρ_ijk


def reciprocal_neighbors(nearness: tf.Tensor, num_neighbors: int) -> tf.Tensor:
    """Return which items are among the nearest of each other.

    Args:
        nearness: the larger, the nearer, `[items, items]`.
        num_neighbors: the item itself counts; all of them if there are fewer. Equally near ones are taken together.

    Returns:
        bool `[items, items]`, symmetric; False on the diagonal.
    """
    size = tf.shape(nearness)[:1]
    itself = tf.fill(size, tf.constant(float("inf"), nearness.dtype))
    nearness = tf.linalg.set_diag(nearness, itself)
    farthest = tf.math.top_k(nearness, tf.minimum(num_neighbors, size[0])).values[:, -1:]
    near = nearness >= farthest
    return tf.linalg.set_diag(near & tf.transpose(near), tf.zeros(size, tf.bool))


def draw_hierarchy(
    related: tf.Tensor, triplets_per_anchor: int, num_proxies: int, seed: tf.Tensor, purpose: int
) -> HierarchyDraws:
    """Draw triplets uniformly, with replacement, and noise.

    Args:
        related: bool `[items, items]`, False on the diagonal.
        triplets_per_anchor: at least 1.
        num_proxies: possible ancestors.
        seed: two integers, `[2]`.
        purpose: tells the draws of one seed apart; `DRAWS` numbers from it on are taken.
    """
    unrelated = tf.linalg.set_diag(~related, tf.zeros(tf.shape(related)[:1], tf.bool))
    shape = tf.stack([tf.shape(related)[0], triplets_per_anchor])

    def columns(mask: tf.Tensor, place: int) -> tf.Tensor:
        counts = tf.math.count_nonzero(mask, axis=1, keepdims=True, dtype=tf.int32)
        uniform = uniform_of(seed, purpose + place, shape)
        places = tf.cast(uniform * tf.cast(counts, tf.float32), tf.int32)  # below the count, also when rounded
        return tf.gather(tf.argsort(tf.cast(~mask, tf.int32), stable=True), places, batch_dims=1)

    def gumbel(place: int) -> tf.Tensor:
        return -tf.math.log(-tf.math.log(uniform_of(seed, purpose + place, tf.concat([shape, [num_proxies]], 0))))

    used = tf.reduce_any(related, axis=1) & tf.reduce_any(unrelated, axis=1)
    return HierarchyDraws(columns(related, 0), columns(unrelated, 1), used, (gumbel(2), gumbel(3)))


def hierarchical_triplet_loss(
    distances: tf.Tensor, draws: HierarchyDraws, temperature: float, margin: float
) -> tf.Tensor:
    """Return the mean loss of triplets and their lowest common ancestors.

    `[d_i + m]₊ + [d_j + m]₊ + [m - d_k]₊` with `d_x = D_x(ρ_ij) - D_x(ρ_ijk)`, the mean over all triplets drawn.

    The ancestor ρ_ij is a proxy drawn by `softmax_ρ(-max(D_i(ρ), D_j(ρ)) / τ)`, ρ_ijk by the maximum of three. A
    triplet with one proxy as both ancestors counts as 0.

    Args:
        distances: D of items from proxies `[items, proxies]`.
        draws: triplets of the items, and noise.
        temperature: τ, greater than 0.
        margin: m.

    Returns:
        A scalar; 0 without triplets. Gradient: straight-through, that of the softmax of logits with their noise.
    """
    of_i, of_j, of_k = distances[:, None], tf.gather(distances, draws.related), tf.gather(distances, draws.unrelated)

    def ancestors(farthest: tf.Tensor, noise: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        logits = tf.cast(noise, distances.dtype) - farthest / temperature
        soft, chosen = tf.nn.softmax(logits), tf.argmax(logits, axis=-1)
        # The difference is 0, so that the weights are exact.
        return chosen, tf.one_hot(chosen, tf.shape(logits)[-1], dtype=soft.dtype) + (soft - tf.stop_gradient(soft))

    of_pair = tf.maximum(of_i, of_j)
    lower, lower_weights = ancestors(of_pair, draws.noise[0])
    upper, upper_weights = ancestors(tf.maximum(of_pair, of_k), draws.noise[1])
    weights = lower_weights - upper_weights  # [items, triplets, proxies]
    rise_i, rise_j, rise_k = (tf.reduce_sum(of * weights, axis=-1) for of in (of_i, of_j, of_k))
    terms = tf.nn.relu(rise_i + margin) + tf.nn.relu(rise_j + margin) + tf.nn.relu(margin - rise_k)
    terms = tf.where(lower != upper, terms, tf.zeros_like(terms))
    return masked_mean(terms, tf.broadcast_to(draws.used[:, None], tf.shape(terms)))
