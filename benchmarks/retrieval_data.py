"""Embeddings shaped like a benchmark's, and the bare product of all pairs.

The product is the limit of any full search.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf


def clustered_embeddings(num_images: int, num_classes: int, dim: int, seed: int):
    """Draw unit vectors `[num_images, dim]` around class centres, and labels.

    The noise grows with `dim` so that items of a class are about as similar as the best of 60,000 others: MAP@R lies
    between 0 and 1.
    """
    rng = np.random.default_rng(seed)
    centers = rng.standard_normal((num_classes, dim), np.float32)
    labels = np.sort(np.r_[np.arange(num_classes).repeat(2), rng.integers(0, num_classes, num_images)])[:num_images]
    labels = np.random.default_rng(seed + 1).permutation(labels)
    scale = np.float32(np.sqrt(max(0.3, np.sqrt(dim) / 4.6 - 1)))
    noise = scale * np.random.default_rng(seed + 2).standard_normal((num_images, dim), np.float32)
    noise += centers[labels]
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    return noise, labels


def full_product(queries: np.ndarray, gallery: np.ndarray, tile: int = 2_048) -> None:
    """Compute the bare float32 product of all pairs, tile by tile."""
    with tf.device("/CPU:0"):
        rows, columns = ([tf.constant(x[i : i + tile]) for i in range(0, len(x), tile)] for x in (queries, gallery))
        for row in rows:
            for column in columns:
                tf.matmul(row, column, transpose_b=True)
