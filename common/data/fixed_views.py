"""A few fixed views of each training image, so that features can be precomputed."""

from __future__ import annotations

import dataclasses

import numpy as np

from common.data.dataset import Dataset
from common.errors import check_non_negative, check_positive

_STREAM = 3  # keeps the views apart from what else is drawn with the same seed


def fixed_views(dataset: Dataset, num_views: int, seed: int) -> Dataset:
    """Return the data set with only `num_views` augmented views per training image.

    The views are a function of the seed and of the image's place in the training set: the same for all folds and
    repeats. The view of a drawn image is a function of the augmentation's own randomness: seed, epoch and place in the
    epoch (`view_numbers`).

    Args:
        dataset: with all of its training examples.
        num_views: of each image, 1 or more.
        seed: of the views, non-negative.

    Returns:
        the data set, whose training examples have `view_seeds` `[examples, num_views, 2]`.
    """
    check_positive("views", num_views)
    generator = np.random.default_rng((check_non_negative("seed", seed), _STREAM))
    seeds = generator.integers(0, 2**31 - 1, size=(len(dataset.train), num_views, 2), dtype=np.int32)
    return dataclasses.replace(dataset, train=dataclasses.replace(dataset.train, view_seeds=seeds))


def view_numbers(seeds: np.ndarray, num_views: int) -> np.ndarray:
    """Return the views `[batch]` for a batch's seed pairs `[batch, 2]`.

    Works on NumPy arrays and tensors alike.
    """
    return seeds[:, 0] % num_views
