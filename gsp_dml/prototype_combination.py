"""Averages of local features as convex combinations of prototypes: histogram operator and residual."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from common.errors import invalid


class PrototypeHistogram(NamedTuple):
    """How the features of each image are shared out among prototypes.

    Attributes:
        weights: p*, the share of the features whose nearest prototype it is, `[images, prototypes]`; rows sum to 1.
        nearest: index of the prototype of each feature, `[images, positions]`.
        distances: of each feature to its prototype, `[images, positions]`.
    """

    weights: np.ndarray
    nearest: np.ndarray
    distances: np.ndarray


class PrototypeCombination(NamedTuple):
    """Images as averages of features and as convex combinations of prototypes.

    Attributes:
        nearest: index of the prototype of each feature, `[images, positions]`.
        weights: of the prototypes, `[images, prototypes]`.
        averages: GAP, `[images, dim]`.
        combinations: PCC, `[images, dim]`.
        mean_distances: of an image's features to their prototypes, `[images]`.
        covering_radius: the largest distance of any feature to its prototype.
    """

    nearest: np.ndarray
    weights: np.ndarray
    averages: np.ndarray
    combinations: np.ndarray
    mean_distances: np.ndarray
    covering_radius: float

    @property
    def errors(self) -> np.ndarray:
        """|PCC - GAP| of each image, `[images]`."""
        return np.linalg.norm(self.combinations - self.averages, axis=-1)


def histogram_operator(features: np.ndarray, prototypes: np.ndarray) -> PrototypeHistogram:
    """Assign each image's features to prototypes at least cost: the nearest ones.

        (p*, pi*) = argmin sum_ij c_ij pi_ij   s.t.  sum_i pi_ij = 1/n,  sum_j pi_ij = p_i,  pi >= 0
        pi*_ij = 1/n if i is the nearest prototype of j, else 0;   c_ij = |v_i - x_j|

    Among prototypes at the same distance the first one takes the feature.

    Reference: thesis definition 4.2.1, claim 4.2.1 (section 4.2.2).

    Args:
        features: x, `[images, positions, dim]`.
        prototypes: v, `[prototypes, dim]`, at least one.

    Raises:
        InvalidInput: the shapes do not fit, or there is nothing to compare.
    """
    features, prototypes = np.asarray(features, np.float64), np.asarray(prototypes, np.float64)
    if features.ndim != 3 or prototypes.ndim != 2 or features.shape[-1] != prototypes.shape[-1]:
        raise invalid(
            "features and prototypes",
            received=(features.shape, prototypes.shape),
            expected="shapes [images, positions, dim] and [prototypes, dim]",
        )
    if not features.shape[1] or not len(prototypes):
        raise invalid(
            "features and prototypes",
            received=(features.shape, prototypes.shape),
            expected="one position and one prototype at least",
        )
    distances = np.linalg.norm(features[:, :, None] - prototypes, axis=-1)  # [images, positions, prototypes]
    nearest = distances.argmin(axis=-1)
    weights = np.stack([np.mean(nearest == index, axis=1) for index in range(len(prototypes))], axis=1)
    return PrototypeHistogram(weights, nearest, distances.min(axis=-1))


def prototype_combination(features: np.ndarray, prototypes: np.ndarray) -> PrototypeCombination:
    """Average pooling beside the combination of prototypes that the histogram operator gives.

        PCC = sum_i p*_i v_i,    GAP = (1/n) sum_j x_j,    |PCC - GAP| <= (1/n) sum_j |x_j - v_nu(j)| <= delta

    with nu(j) the nearest prototype and delta the covering radius. Both bounds are the triangle inequality, and hold
    for any features and any prototypes.

    Reference: thesis Proposition 4.2.1 (section 4.2.2). Erratum: it prints the bound for the square,
    |PCC - GAP|^2 <= delta, inside of the unit ball. That follows where the error is at most 1, and is weaker than the
    above there; beyond, it is false: one prototype v and one feature -v of length 1 have an error of 2, a radius of 2,
    and a square of 4.

    Args:
        features: x, `[images, positions, dim]`.
        prototypes: v, `[prototypes, dim]`, at least one.

    Raises:
        InvalidInput: the shapes do not fit, or there is nothing to compare.
    """
    features, prototypes = np.asarray(features, np.float64), np.asarray(prototypes, np.float64)
    weights, nearest, distances = histogram_operator(features, prototypes)
    radius = float(distances.max(initial=0.0))
    return PrototypeCombination(
        nearest, weights, features.mean(axis=1), weights @ prototypes, distances.mean(axis=1), radius
    )
