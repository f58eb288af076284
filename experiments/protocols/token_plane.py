"""Tokens and pooled samples of a finished run in the plane, and pooling weights."""

from __future__ import annotations

import numpy as np

from common.data import Dataset
from common.data.synthetic_tokens import NUM_CLASS_TOKENS, VOCABULARY_SIZE
from experiments.reports import UnitRun
from experiments.reports.token_panels import share_in_other_hulls
from experiments.runs.pooling_weights import image_batches, pooling_weights_of
from experiments.runs.trained_model import load_trained_model


class TokenPlane:
    """Trained tokens and test samples.

    Args:
        tokens: `[tokens, 2]`.
        samples: of the test set `[samples, 2]`.
        labels: theirs `[samples]`.
        weight_on_own: the share of the weight that test samples give to tokens of classes.
    """

    def __init__(self, tokens: np.ndarray, samples: np.ndarray, labels: np.ndarray, weight_on_own: float):
        self.tokens, self.samples, self.labels, self.weight_on_own = tokens, samples, labels, weight_on_own
        self.in_other_hulls = share_in_other_hulls(samples, labels)


def plane_of(unit: UnitRun, dataset: Dataset | None, cache_dir: str | None = None) -> TokenPlane:
    """Return a finished unit's tokens and test samples in the plane.

    Args:
        unit: of bags of tokens.
        dataset: as loaded; None to load it.
        cache_dir: the folder for prepared data, or None for the default.
    """
    import tensorflow as tf

    trained = load_trained_model(unit.path, dataset=dataset, cache_dir=cache_dir)
    tokens = trained.model.backbone(tf.range(VOCABULARY_SIZE)[None]).numpy()[0]
    test = trained.dataset.test
    pooled = pooling_weights_of(trained.model, image_batches(test, trained.config, trained.dataset))
    on_own = np.sum(pooled.weights * (test.arrays < NUM_CLASS_TOKENS), axis=1).mean()
    return TokenPlane(tokens, unit.test_embeddings()["queries"], test.labels, float(on_own))
