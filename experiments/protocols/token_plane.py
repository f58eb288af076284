"""Tokens and pooled samples in the plane, and their pooling weights."""

from __future__ import annotations

import numpy as np

from common.data import Dataset
from common.data.synthetic_tokens import NUM_CLASS_TOKENS, VOCABULARY_SIZE
from experiments.reports import UnitRun
from experiments.reports.planes import share_in_other_hulls
from experiments.rows.rows import Extras
from experiments.runs.pooling_weights import image_batches, pooling_weights_of
from experiments.runs.trained_model import load_trained_model

_DIGITS = 6  # of what a model computes again: other machines round the last ones in another way


def token_extras(unit: UnitRun, dataset: Dataset | None, cache_dir: str | None = None, *, with_arrays: bool) -> Extras:
    """Measure what figure 5.4 shows of a finished run.

    `weight_on_own` is the share of the weight that test samples give to tokens of classes, `in_other_hulls` the share
    of test samples inside another class' hull.

    Args:
        unit: of bags of tokens.
        dataset: as loaded; None to load it.
        cache_dir: the folder for prepared data, or None for the default.
        with_arrays: also return the trained `tokens` `[tokens, 2]`, the test set's `samples` `[samples, 2]` and their
            `labels` `[samples]`.
    """
    import tensorflow as tf

    trained = load_trained_model(unit.path, dataset=dataset, cache_dir=cache_dir)
    test, samples = trained.dataset.test, unit.test_embeddings()["queries"]
    pooled = pooling_weights_of(trained.model, image_batches(test, trained.config, trained.dataset))
    on_own = np.sum(pooled.weights * (test.arrays < NUM_CLASS_TOKENS), axis=1).mean()
    values = {"weight_on_own": float(on_own), "in_other_hulls": share_in_other_hulls(samples, test.labels)}
    values = {name: round(value, _DIGITS) for name, value in values.items()}
    if not with_arrays:
        return Extras(values, {})
    tokens = trained.model.backbone(tf.range(VOCABULARY_SIZE)[None]).numpy()[0]
    return Extras(values, {"tokens": tokens, "samples": samples, "labels": test.labels})
