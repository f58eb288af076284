"""Geometry of an embedding space: covering radii of classes and distances between them."""

from __future__ import annotations

import numpy as np

import ccp_dml

_NUM_POOLS = 50  # drawn of each class
_ROWS_AT_ONCE = 1000


def mean_covering_radius(embeddings, labels, centers, pool_size: int) -> float:
    """Return the covering radius of random pools, mean over pools and classes.

    `mean over pools, classes of max_{x in pool of the class} min_{c of the class} ‖x - c‖`. The thesis does not say
    over which samples its covering radii are; here pools are as large as the method's. (The radius of a whole class
    is the distance of its worst outlier: one wrongly recognised image in a thousand decides it.)

    Reference: thesis figure 3.2 ("Cover") and section 3.2.3.

    Args:
        embeddings: `[examples, dim]`.
        labels: `[examples]`, each of 0 .. classes-1.
        centers: of each class, `[classes, centers, dim]`; different centers meet the same pools.
    """
    indices = [ccp_dml.sample_pools(labels, pool_size, 1, (0, number)) for number in range(_NUM_POOLS)]
    pools = np.asarray(embeddings)[np.concatenate(indices)]  # [pools · classes, pool, dim]
    return float(ccp_dml.covering_radii(pools, np.tile(centers, (_NUM_POOLS, 1, 1))).mean())


def average_covering_radius(embeddings, labels) -> float:
    """Return the average covering radius of classes by 1, 2, ..., n own examples.

    `mean over classes of (1/n) sum_k min over k of its examples of max_x (distance to the nearest of the k)` says how
    densely classes are filled. Greedy k-center chooses the k, from the first example on; one order gives all radii.

    Reference: thesis section 3.3.1, figure 3.3 ("covering radii for 1 to n sample case in k-Center").
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
    """Return the mean distance over all pairs of different classes.

    `E‖x - x⁻‖` of thesis figures 3.2 and 3.3.
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
