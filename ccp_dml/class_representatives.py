"""Images that represent a class in the next projection problem."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from common.errors import invalid
from common.ops.k_center import covering_radius, greedy_k_center

CLASSES_AT_ONCE = 1024  # bounds the memory of intermediate results for any number of classes


class Representatives(NamedTuple):
    """The chosen members of each class's pool."""

    positions: np.ndarray  # int64 [classes, representatives], within the class's pool, in the order of choice
    embeddings: np.ndarray  # float [classes, representatives, dim]


def choose_representatives(
    pools: np.ndarray, num_representatives: int, previous: np.ndarray | None = None
) -> Representatives:
    """Pick from each class's pool by greedy k-center, repelled by previous proxies.

        q = argmax_{u in pool, not picked} min_{v in previous + picked} ‖u - v‖

    Previous proxies only repel and are never picked, so that the next problem explores new regions. Without them, the
    first pick is the first member of the pool, a random sample of the class.

    Reference: thesis Algorithm 2 (GreedyKCenterProxy).

    Args:
        pools: embeddings `[classes, pool, dim]`, normalised as the loss compares them.
        num_representatives: picks from each pool, at most the size of the pool.
        previous: converged proxies `[classes, previous proxies, dim]`, normalised likewise, or None.

    Raises:
        InvalidInput: more picks than a pool has members, previous proxies of other classes or dimensions, or a number
            that is not finite.
    """
    pools = np.asarray(pools)
    if num_representatives > pools.shape[1]:
        raise invalid(
            "pool size",
            received=pools.shape[1],
            expected=f"at least the number of representatives of a class, {num_representatives}",
        )
    if previous is not None and (len(previous), previous.shape[-1]) != (len(pools), pools.shape[-1]):
        expected = f"{len(pools)} classes and the dimension {pools.shape[-1]}, as in the pools"
        raise invalid("shape of previous proxies", received=previous.shape, expected=expected)
    _check_finite("pools", pools)
    if previous is not None:
        _check_finite("previous proxies", previous)
    positions = np.concatenate(
        [
            greedy_k_center(pools[rows], num_representatives, None if previous is None else previous[rows]).numpy()
            for rows in _chunks(len(pools))
        ]
    ).astype(np.int64)
    return Representatives(positions, np.take_along_axis(pools, positions[:, :, None], axis=1))


def covering_radii(pools: np.ndarray, centers: np.ndarray) -> np.ndarray:
    """Return each class's covering radius.

    This is the largest distance from a member of the pool to its nearest center.

    Reference: thesis section 3.2.2 (the bound) and figures 3.2 and 3.3, which print the mean over classes.

    Args:
        pools: `[classes, pool, dim]`.
        centers: `[classes, centers, dim]`.

    Returns:
        float `[classes]`.
    """
    radii = [covering_radius(pools[rows], centers[rows]).numpy() for rows in _chunks(len(pools))]
    return np.concatenate(radii)


def _check_finite(name: str, embeddings: np.ndarray) -> None:
    spoiled = np.argwhere(~np.isfinite(embeddings).all(axis=-1))
    if len(spoiled):
        raise invalid(
            name,
            received=f"{len(spoiled)} embeddings that are not finite, the first of class {spoiled[0, 0]}",
            expected="finite numbers",
            fix="The network has diverged, or its input holds NaN: resume from an earlier checkpoint.",
        )


def _chunks(num_classes: int) -> list[slice]:
    return [slice(start, start + CLASSES_AT_ONCE) for start in range(0, num_classes, CLASSES_AT_ONCE)]
