"""Training from cached features: their folder, and the check on resuming."""

from __future__ import annotations

import os

from common import training
from common.backbones.network_names import OUTPUT_STRIDE
from common.data import Dataset
from common.errors import InvalidInput
from common.files import read_json, write_json
from common.records import RunDirectory
from experiments.settings import build
from experiments.settings.config import ExperimentConfig

_RECORD = "features.json"


def features_below_cut(
    model: training.EmbeddingModel,
    config: ExperimentConfig,
    dataset: Dataset,
    fingerprint: str,
    cache_dir: str | None,
    run: RunDirectory,
) -> training.CachedFeatures:
    """Return the features below a model's cut, cached or computed now.

    The unit's folder `run` keeps a record of them, and refuses others.
    """
    folder = os.path.join(cache_dir or build.default_cache_dir(), "features", dataset.name)
    origin: dict[str, object] = {
        "data": fingerprint,
        "backbone": config.backbone,
        "trained_from": config.trained_from,
        "image_size": config.image_size,
    }
    if config.output_stride != OUTPUT_STRIDE:
        origin["output_stride"] = config.output_stride
    if config.copies != "exact":
        origin["copies"] = config.copies
    augmentation, preprocessing = build.build_augmentation(config, dataset), build.build_preprocessing(config, dataset)
    batch_size = build.evaluation_batch_size(config)
    features = training.cache_features(
        dataset, model.backbone.lower, augmentation, preprocessing, folder, origin, batch_size=batch_size
    )
    _check_record(run, {"training": features.training.digest, "evaluation": features.evaluation.digest})
    return features


def _check_record(run: RunDirectory, digests: dict[str, str]) -> None:
    path = run.path / _RECORD
    recorded = read_json(path)
    if recorded is None:
        write_json(path, digests)
    elif recorded != digests:
        raise InvalidInput(
            f"{run.path} was begun with other features than the network now gives: its weights, the views or this code "
            f"have changed since. Delete {run.path} to train it again."
        )
