"""Small pictures that are easy to tell apart, for what is done with a data set, whichever it is."""

from __future__ import annotations

import numpy as np

from common.data import Dataset, Examples

IMAGES_PER_CLASS = 8


def patterned_images(num_learned: int, num_test: int) -> Dataset:
    """Classes to learn from and others, each of eight noisy pictures of a pattern of 32 x 32 pixels."""
    generator = np.random.default_rng(0)
    patterns = np.kron(generator.uniform(40, 215, (num_learned + num_test, 8, 8, 3)), np.ones((1, 4, 4, 1)))

    def examples(classes: np.ndarray) -> Examples:
        labels = np.repeat(classes, IMAGES_PER_CLASS)
        images = patterns[labels] + generator.normal(0, 40, (len(labels), 32, 32, 3))
        return Examples(labels, inputs=np.clip(images, 0, 255).astype(np.uint8))

    train, test = examples(np.arange(num_learned)), examples(np.arange(num_learned, num_learned + num_test))
    return Dataset("cifar10", train=train, test=test, kind="memory_images", native_size=32)
