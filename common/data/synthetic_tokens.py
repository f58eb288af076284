"""Bags of tokens, half of the class and half shared by all; no download."""

from __future__ import annotations

import os

import numpy as np

from common.data.dataset import Dataset, Examples
from common.errors import check_positive

NUM_CLASSES = 16
TOKENS_PER_CLASS = 4
NUM_SHARED_TOKENS = 4
TOKENS_PER_SAMPLE = 50
NUM_CLASS_TOKENS = NUM_CLASSES * TOKENS_PER_CLASS
VOCABULARY_SIZE = NUM_CLASS_TOKENS + NUM_SHARED_TOKENS

_FOREGROUND_MEAN = 0.5
_FOREGROUND_DEVIATION = 0.1


def load_synthetic_tokens(
    data_dir: str | None = None,
    *,
    cache_dir: str | os.PathLike | None = None,
    seed: int = 0,
    samples_per_class: int = 64,
) -> Dataset:
    """Make samples of 50 tokens in 16 classes; about half are shared tokens.

    A model can learn to ignore the four shared tokens. Class c owns the tokens 4c ... 4c + 3, and 64 ... 67 belong to
    all. A sample of class c has n of its own tokens and 50 - n shared ones, all with replacement and in random order,
    with n = round(50 r), r ~ N(.5, .1), clipped to [1, 49]. The model learns the tokens' vectors, so training,
    validation and test share the 16 classes (tokens of unseen classes would have no trained vectors) and differ in the
    samples.

    Args:
        data_dir: unused; every loader has this argument.
        cache_dir: likewise; there is nothing to keep.
        seed: training, validation and test samples are drawn from independent streams of it.
        samples_per_class: in each of the three parts.

    Returns:
        Token identifiers `[examples, 50]` int32 below `VOCABULARY_SIZE`; those of `NUM_CLASS_TOKENS` and above are
        shared.
    """
    del data_dir, cache_dir
    check_positive("samples_per_class", samples_per_class)
    streams = map(np.random.default_rng, np.random.SeedSequence(seed).spawn(3))
    train, validation, test = (_draw_samples(samples_per_class, stream) for stream in streams)
    return Dataset(
        name="synthetic_tokens",
        train=train,
        validation=validation,
        test=test,
        class_names=[f"class {label}" for label in range(NUM_CLASSES)],
    )


def _draw_samples(samples_per_class: int, generator: np.random.Generator) -> Examples:
    labels = np.repeat(np.arange(NUM_CLASSES), samples_per_class)
    ratios = generator.normal(_FOREGROUND_MEAN, _FOREGROUND_DEVIATION, size=len(labels))
    num_own = np.clip(np.rint(TOKENS_PER_SAMPLE * ratios), 1, TOKENS_PER_SAMPLE - 1)
    shape = (len(labels), TOKENS_PER_SAMPLE)
    own = labels[:, None] * TOKENS_PER_CLASS + generator.integers(TOKENS_PER_CLASS, size=shape)
    shared = NUM_CLASS_TOKENS + generator.integers(NUM_SHARED_TOKENS, size=shape)
    tokens = np.where(np.arange(TOKENS_PER_SAMPLE) < num_own[:, None], own, shared)
    return Examples(labels, inputs=generator.permuted(tokens, axis=1).astype(np.int32))
