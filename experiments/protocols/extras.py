"""Additional records of a run that tables and pictures of some data sets need."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import numpy as np

from common.data import Dataset
from common.data.synthetic_tokens import NUM_CLASS_TOKENS, VOCABULARY_SIZE
from common.files import read_json, write_json
from experiments.parts.datasets import traits_of
from experiments.reports import UnitRun
from experiments.rows.rows import Extras, no_extras
from experiments.runs.pooling_weights import pooling_weights_of, target_shares
from experiments.runs.trained_model import load_trained_model
from experiments.settings import build

_DIGITS = 6  # of what a model computes again: other machines round the last ones in another way


class ExtrasReader:
    """Reader of runs' extras; loads each data set once, when a run needs it."""

    def __init__(self, data_dir: str | None = None, cache_dir: str | None = None):
        self._places = data_dir, cache_dir
        self._datasets: dict[tuple, Dataset] = {}

    def read(self, unit: UnitRun) -> Extras:
        """Read a finished run's extras, often empty."""
        traits = traits_of(str(unit.config.get("dataset")))
        if traits.kind == "tokens":
            # The picture shows the first training of each method.
            is_first = unit.fold == unit.repeat == 0
            return token_extras(unit, self._dataset(unit), self._places[1], with_arrays=is_first)
        if traits.with_targets:
            return target_share_extras(unit, self._dataset, self._places[1])
        return no_extras(unit)

    def _dataset(self, unit: UnitRun) -> Dataset:
        drawn = {"seed": 0, **{name: unit.config[name] for name in build.DRAWN_BY if name in unit.config}}
        key = unit.config["dataset"], *drawn.items()
        if key not in self._datasets:
            self._datasets[key] = build.load_dataset(unit.config["dataset"], *self._places, **drawn)
        return self._datasets[key]


def target_share_extras(
    unit: UnitRun, dataset_of: Callable[[UnitRun], Dataset], cache_dir: str | None = None
) -> Extras:
    """Measure `target_shares` of a finished run, and keep them in its folder.

    Nothing is measured twice if the folder is writable. Empty if images contain only the target, or if the pooling has
    no weights.
    """
    path = unit.path / "target_shares.json"
    shares = read_json(path)
    if shares is None and not str(unit.config["dataset"]).endswith("_distilled"):
        dataset = dataset_of(unit)
        trained = load_trained_model(unit.path, dataset=dataset, cache_dir=cache_dir)
        shares = target_shares(trained.model, dataset.test, trained.inputs(dataset.test)) or {}
        with contextlib.suppress(OSError):
            write_json(path, shares)
    rounded = {name: round(value, _DIGITS) for name, value in (shares or {}).items()}
    return Extras({"target_shares": rounded} if rounded else {}, {})


def token_extras(unit: UnitRun, dataset: Dataset | None, cache_dir: str | None = None, *, with_arrays: bool) -> Extras:
    """Measure what figure 5.4 shows of a finished run.

    `weight_on_own` is the share of the weight that test samples give to tokens of classes, `in_other_hulls` the share
    of test samples inside another class' hull. The arrays are the trained `tokens` `[tokens, 2]`, the test set's
    `samples` `[samples, 2]` and their `labels` `[samples]`. A data set that is None is loaded.
    """
    import tensorflow as tf

    trained = load_trained_model(unit.path, dataset=dataset, cache_dir=cache_dir)
    test, samples = trained.dataset.test, unit.test_embeddings()["queries"]
    pooled = pooling_weights_of(trained.model, trained.inputs(test))
    on_own = np.sum(pooled.weights * (test.arrays < NUM_CLASS_TOKENS), axis=1).mean()
    values = {"weight_on_own": float(on_own), "in_other_hulls": share_in_other_hulls(samples, test.labels)}
    values = {name: round(value, _DIGITS) for name, value in values.items()}
    if not with_arrays:
        return Extras(values, {})
    tokens = trained.model.backbone(tf.range(VOCABULARY_SIZE)[None]).numpy()[0]
    return Extras(values, {"tokens": tokens, "samples": samples, "labels": test.labels})


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
