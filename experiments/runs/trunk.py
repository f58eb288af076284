"""A trained model's linear neck and its inputs, the backbone's pooled features."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from common import training
from common.data import Examples
from common.errors import InvalidInput, check_given
from experiments.runs.trained_model import TrainedModel
from experiments.settings.config import ExperimentConfig


class Trunk(NamedTuple):
    """A run as features and a neck."""

    config: ExperimentConfig  # the run's configuration
    neck: np.ndarray  # `[channels, dim]`; an embedding is `features @ neck`, then brought to length
    training: np.ndarray  # features of the images that the run learnt from `[items, channels]`
    queries: np.ndarray  # of the test set `[queries, channels]`; `query_labels` are `[queries]`
    query_labels: np.ndarray
    gallery: np.ndarray | None  # where it is apart, with its labels; else None
    gallery_labels: np.ndarray | None


def trunk_of(trained: TrainedModel) -> Trunk:
    """Return a trained run's trunk; refuse heads other than pooling and linear neck."""
    neck = _neck(trained)
    dataset = trained.dataset

    def features(examples: Examples) -> np.ndarray:
        return trained.model.embed(trained.inputs(examples), output="pooled")

    gallery = dataset.gallery
    return Trunk(
        trained.config,
        neck,
        features(trained.training),
        features(dataset.test),
        dataset.test.labels,
        None if gallery is None else features(gallery),
        None if gallery is None else gallery.labels,
    )


def _neck(trained: TrainedModel) -> np.ndarray:
    head, loss = trained.model.head, trained.config.loss
    if trained.model.feature_sizes is not None:
        raise InvalidInput(
            f"Invalid --run: received one with --loss={loss}, whose features are brought to length one by one, so "
            "that no metric matrix has their norm. Expected a run with one feature."
        )
    if not isinstance(head, training.EmbeddingHead) or head.project_first:
        raise InvalidInput(
            f"Invalid --run: received one with --pooling={trained.config.pooling}, which projects before it pools, so "
            "there is no metric matrix between its features. Expected a pooling with a linear neck behind it, such as "
            "gap, gmp or gemean."
        )
    if head.use_bias:
        raise InvalidInput(
            f"Invalid --run: received one with --head_start={trained.config.head_start}, whose neck has a bias: its "
            "embeddings are not linear in the features. Expected a run with --head_start=random."
        )
    return np.asarray(check_given("projection", head.projection).kernel)
