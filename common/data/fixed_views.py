"""A few views of each training image instead of a new one at every draw: what features can be computed of."""

from __future__ import annotations

import dataclasses

import numpy as np

from common.data.dataset import Dataset
from common.errors import check_non_negative, check_positive

_STREAM = 3  # keeps the views apart from what else is drawn with the same seed


def fixed_views(dataset: Dataset, num_views: int, seed: int) -> Dataset:
    """The same data set, of whose training images only `num_views` augmented views are seen.

    The views are a function of the seed and of the image's place in the training set: the same for all folds and
    repeats. Which of them is seen when an image is drawn is a function of what augmentation would have drawn from:
    seed, epoch and place in the epoch (`view_numbers`).

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
    """Which view is seen, `[batch]` in 0 .. num_views - 1, of the seed pairs `[batch, 2]` of a batch's examples.

    Works on NumPy arrays and tensors alike.
    """
    return seeds[:, 0] % num_views
