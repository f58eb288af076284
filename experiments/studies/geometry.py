"""Geometry of an embedding space: covering radii of classes and distances between them."""

from __future__ import annotations

import numpy as np

import ccp_dml

_ROWS_AT_ONCE = 1000


def mean_covering_radius(embeddings, labels, centers, pool_size: int, num_pools: int = 50, seed: int = 0) -> float:
    """Distance that a class reaches from its centers: the covering radius of random pools, mean over pools and classes.

    `mean over pools, classes of max_{x in pool of the class} min_{c of the class} ‖x - c‖`. The thesis prints covering
    radii without saying of which samples; here they are of pools as large as those that the method draws. (That of a
    whole class is the distance of its worst outlier: one wrongly recognised image in a thousand decides it.)

    Reference: thesis figure 3.2 ("Cover") and section 3.2.3.

    Args:
        embeddings: `[examples, dim]`.
        labels: `[examples]`, each of 0 .. classes-1.
        centers: of each class, `[classes, centers, dim]`.
        pool_size: examples of a class in a pool.
        num_pools: pools that are drawn of each class.
        seed: of the draws, so that different centers are compared with the same pools.
    """
    indices = [ccp_dml.sample_pools(labels, pool_size, 1, (seed, number)) for number in range(num_pools)]
    pools = np.asarray(embeddings)[np.concatenate(indices)]  # [pools · classes, pool, dim]
    return float(ccp_dml.covering_radii(pools, np.tile(centers, (num_pools, 1, 1))).mean())


def average_covering_radius(embeddings, labels) -> float:
    """How densely classes are filled: the covering radius by 1, 2, ..., n of a class' own n examples, their average.

    `mean over classes of (1/n) sum_k min over k of its examples of max_x (distance to the nearest of the k)`, where
    greedy k-center chooses the k, from the first example on; one order of choosing gives all radii.

    Reference: thesis section 3.3.1, figure 3.3 ("covering radii for 1 to n sample case in k-Center").

    Args:
        embeddings: `[examples, dim]`.
        labels: `[examples]`.
    """
    embeddings, labels = np.asarray(embeddings, np.float64), np.asarray(labels)
    averages = []
    for label in np.unique(labels):
        members = embeddings[labels == label]
        nearest, radii = np.linalg.norm(members - members[0], axis=1), []
        for _ in members:
            radii.append(nearest.max())
            nearest = np.minimum(nearest, np.linalg.norm(members - members[nearest.argmax()], axis=1))
        averages.append(np.mean(radii))
    return float(np.mean(averages))


def mean_distance_between_classes(embeddings, labels) -> float:
    """`E‖x - x⁻‖` over all pairs of examples of different classes.

    Reference: thesis figures 3.2 and 3.3.

    Args:
        embeddings: `[examples, dim]`.
        labels: `[examples]`.
    """
    embeddings, labels = np.asarray(embeddings, np.float64), np.asarray(labels)
    total, count = 0.0, 0
    for start in range(0, len(labels), _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        squares = sum((embeddings[rows, axis, None] - embeddings[:, axis]) ** 2 for axis in range(embeddings.shape[1]))
        differs = labels[rows, None] != labels
        total += float(np.sqrt(squares[differs]).sum())
        count += int(differs.sum())
    return total / count
