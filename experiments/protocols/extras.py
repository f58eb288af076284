"""Additional records of a run that tables and pictures of some data sets need."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import numpy as np

from common.data import Dataset
from common.data.synthetic_tokens import NUM_CLASS_TOKENS, VOCABULARY_SIZE
from common.files import read_json, write_json
from experiments.parts.datasets import traits_of
from experiments.rows.rows import Row
from experiments.runs.pooling_weights import pooling_weights_of, target_shares
from experiments.runs.trained_model import DataFolder, load_trained_model

_DIGITS = 6  # of what a model computes again: other machines round the last ones in another way


def with_data_extras(row: Row, data: DataFolder) -> Row:
    """Add what tables and pictures of a finished run's data set need; often nothing."""
    traits = traits_of(row["dataset"])
    if traits.kind == "tokens":
        if "weight_on_own" in row["extras"]:
            return row
        # The picture shows the first training of each method.
        return token_extras(row, data.dataset_of(row), data.cache_dir, with_arrays=row.place == (0, 0))
    if traits.with_targets:
        return target_share_extras(row, data.dataset_of, data.cache_dir)
    return row


def target_share_extras(row: Row, dataset_of: Callable[[Row], Dataset], cache_dir: str | None = None) -> Row:
    """Measure `target_shares` of a finished run, and keep them in its folder.

    Nothing is measured twice if the folder is writable. There are none if images contain only the target, or if the
    pooling has no weights.
    """
    path = row.folder / "target_shares.json"
    shares = read_json(path)
    if shares is None and not traits_of(row["dataset"]).distilled:
        dataset = dataset_of(row)
        trained = load_trained_model(row.folder, dataset=dataset, cache_dir=cache_dir)
        shares = target_shares(trained.model, dataset.test, trained.inputs(dataset.test)) or {}
        with contextlib.suppress(OSError):
            write_json(path, shares)
    rounded = {name: round(value, _DIGITS) for name, value in (shares or {}).items()}
    return row.with_extras({"target_shares": rounded} if rounded else {})


def token_extras(row: Row, dataset: Dataset | None, cache_dir: str | None = None, *, with_arrays: bool) -> Row:
    """Measure what figure 5.4 shows of a finished run.

    `weight_on_own` is the share of the weight that test samples give to tokens of classes, `in_other_hulls` the share
    of test samples inside another class' hull. The arrays are the trained `tokens` `[tokens, 2]`, the test set's
    `samples` `[samples, 2]` and their `labels` `[samples]`. A data set that is None is loaded.
    """
    import tensorflow as tf

    trained = load_trained_model(row.folder, dataset=dataset, cache_dir=cache_dir)
    test, samples = trained.dataset.test, row.test_embeddings()["queries"]
    pooled = pooling_weights_of(trained.model, trained.inputs(test))
    on_own = np.sum(pooled.weights * (test.arrays < NUM_CLASS_TOKENS), axis=1).mean()
    values = {"weight_on_own": float(on_own), "in_other_hulls": share_in_other_hulls(samples, test.labels)}
    values = {name: round(value, _DIGITS) for name, value in values.items()}
    if not with_arrays:
        return row.with_extras(values)
    tokens = trained.model.backbone(tf.range(VOCABULARY_SIZE)[None]).numpy()[0]
    return row.with_extras(values, {"tokens": tokens, "samples": samples, "labels": test.labels})


def share_in_other_hulls(samples: np.ndarray, labels: np.ndarray) -> float:
    """Return the share of samples `[samples, 2]` inside another class's hull."""
    from matplotlib.path import Path

    inside = np.zeros(len(samples), bool)
    for label in np.unique(labels):
        corners = samples[labels == label]
        others = labels != label
        inside[others] |= Path(corners[hull_order(corners)]).contains_points(samples[others])
    return float(inside.mean())


def hull_order(points: np.ndarray) -> np.ndarray:
    """Order the convex hull's corner indices; all points without an area."""
    from scipy.spatial import ConvexHull, QhullError

    try:
        return ConvexHull(points).vertices
    except (QhullError, ValueError):
        return np.arange(len(points))
