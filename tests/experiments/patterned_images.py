"""Small pictures that are easy to tell apart, for what is done with a data set, whichever it is."""

from __future__ import annotations

import pathlib

import numpy as np
from PIL import Image

from common.data import Dataset, Examples


def write_photos(folder: pathlib.Path, counts: dict[str, int], seed: int = 0, ending: str = "png") -> pathlib.Path:
    """Files of random pixels: of each class so many, in a folder of its name."""
    generator = np.random.default_rng(seed)
    for name, count in counts.items():
        (folder / name).mkdir(parents=True)
        for number in range(count):
            pixels = generator.integers(0, 256, (40, 40, 3), np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number}.{ending}")
    return folder


def patterned_images(num_learned: int, num_test: int, size: int = 32, copies: int = 8) -> Dataset:
    """Classes to learn from and others, each of so many noisy pictures of a pattern of 8 x 8 squares."""
    generator = np.random.default_rng(0)
    squares = generator.uniform(40, 215, (num_learned + num_test, 8, 8, 3))
    patterns = np.kron(squares, np.ones((1, size // 8, size // 8, 1)))
    return _dataset("cifar10", patterns, num_learned, generator, noise=40, copies=copies)


def noisy_pictures(
    name: str, num_learned: int, num_test: int, *, noise: float, copies: int, shape=(16, 16, 1), **fields
) -> Dataset:
    """Classes to learn from and others, each of so many pictures of random pixels with noise."""
    generator = np.random.default_rng(0)
    patterns = generator.uniform(0, 255, (num_learned + num_test, *shape))
    return _dataset(name, patterns, num_learned, generator, noise=noise, copies=copies, **fields)


def _dataset(name, patterns, num_learned, generator, *, noise, copies, gallery_copies=0, **fields) -> Dataset:
    def examples(classes: np.ndarray, count: int) -> Examples:
        labels = np.repeat(classes, count)
        images = patterns[labels] + generator.normal(0, noise, (len(labels), *patterns.shape[1:]))
        return Examples(labels, inputs=np.clip(images, 0, 255).astype(np.uint8))

    learned, tested = np.split(np.arange(len(patterns)), [num_learned])
    train, test = examples(learned, copies), examples(tested, copies)
    gallery = examples(tested, gallery_copies) if gallery_copies else None
    return Dataset(name, train, test, gallery=gallery, **fields)
