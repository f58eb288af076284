"""Checks before a run begins: before an image is read, a folder is made or anything is traced."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable

import numpy as np
import tensorflow as tf

from common import backbones
from common.backbones.bn_inception import INPUT_MEANS
from common.backbones.cut_network import HEAD
from common.data import Dataset, Examples
from common.errors import check_choice, invalid
from common.training.devices import IS_KERAS_3, check_replicas
from experiments.settings import build
from experiments.settings.config import ExperimentConfig
from experiments.settings.initial_weights import check_weights, is_file, weights_file
from experiments.settings.methods.ccp import ProjectionSettings
from experiments.units.splits import Split, split_of


def check_configurations(configs: Iterable[ExperimentConfig], data_dir: str | None) -> None:
    """Refuses what no data are needed to refuse: weights that cannot be had, and values that a layer does not take.

    A data set whose folder is not there passes: loading it says what to fetch, which takes longest to mend.

    Args:
        configs: of units that shall be trained.
        data_dir: where their data shall come from.

    Raises:
        InvalidInput: of the first configuration that cannot be trained on any data.
    """
    for config in dict.fromkeys(configs):
        if config.dataset not in build.EMBEDDED_DATASETS and not os.path.exists(data_dir or ""):
            continue
        check_choice("--backbone", config.backbone, build.BACKBONES)
        _check_devices(config)
        check_weights(config.backbone, config.weights)
        _check_cut(config)
        _check_parts(config, max(2, config.classes_per_batch))


def check_unit(config: ExperimentConfig, dataset: Dataset, fold: int, repeat: int) -> None:
    """Refuses a unit that cannot be trained on these data; labels are read, images are not.

    Args:
        config: the configuration.
        dataset: as loaded.
        fold, repeat: which unit of it.

    Raises:
        InvalidInput: too few classes or images of a class, an augmentation for other images, weights that cannot be had
            or do not fit the network, a cut that the network does not have, a value that a layer does not take.
    """
    check_weights(config.backbone, config.weights)
    _check_devices(config)
    split = split_of(dataset, config, fold, repeat)
    _check_split(split, dataset, config, fold)
    augmentation = build.build_augmentation(config, dataset)
    build.build_batches(config, split.training.labels, 0)
    _check_parts(config, split.training.num_classes)
    projections = config.find(ProjectionSettings)
    if projections:
        projections.check(split.training, augmentation, config.seed, config.monitor)
    _check_backbone(config, dataset)


def _check_devices(config: ExperimentConfig) -> None:
    """The devices of this host, which must be asked before TensorFlow begins to work."""
    if config.replicas is None:
        return
    if not IS_KERAS_3 and not config.frozen_batch_norm:
        expected = "--frozen_batch_norm on Keras 2 with --strategy=mirrored"
        fix = "Keras 3 trains batch normalisation with the statistics of all replicas."
        raise invalid("--frozen_batch_norm", received=False, expected=expected, fix=fix)
    check_replicas(config.replicas)
    tf.get_logger().setLevel("WARNING")  # it tells of every sum over replicas that it traces


def _check_parts(config: ExperimentConfig, num_classes: int) -> None:
    """Makes the layers behind the backbone, whose constructors check their settings, and lets go of them again."""
    check_choice("--input_mean", config.input_mean, INPUT_MEANS)
    build.build_head(config)
    build.build_loss(config, num_classes)
    build.build_attribute_loss(config, num_classes)


def _check_split(split: Split, dataset: Dataset, config: ExperimentConfig, fold: int) -> None:
    """Two classes on every side are the fewest among which anything can be wrong."""
    sides = {"train": (split.training, None), "validate": (split.queries, split.gallery)}
    for what, (examples, gallery) in {**sides, "test": (dataset.test, dataset.gallery)}.items():
        count = len(np.unique((examples if gallery is None else gallery).labels))
        if count < 2:
            of_fold = what != "test" and config.protocol is None
            raise invalid(
                f"number of classes of {dataset.name}",
                received=count,
                expected=f"two or more to {what} on" + (f" in fold {fold} of {config.num_folds}" if of_fold else ""),
                fix="Use fewer folds (--num_folds)." if of_fold else "Add classes.",
            )
        if what != "train" and not _has_relevant(examples, gallery):
            raise invalid(
                f"images of {dataset.name}",
                received="classes of one image alone",
                expected=f"a class with two, or with one in the gallery, to {what} on",
            )


def _has_relevant(queries: Examples, gallery: Examples | None) -> bool:
    if gallery is not None:
        return bool(np.isin(queries.labels, gallery.labels).any())
    return bool(np.unique(queries.labels, return_counts=True)[1].max() > 1)


def _check_backbone(config: ExperimentConfig, dataset: Dataset) -> None:
    """Makes the backbone with its weights where they, or the size of the images, may not fit; once for many units."""
    build.check_backbone(config, dataset)
    _check_cut(config)
    if config.weights == "none" and config.backbone not in backbones.KERAS_APPLICATIONS:
        return
    content = weights_file(config.weights) if is_file(config.weights) else None
    _fits(config.backbone, config.weights, content, config.image_size, dataset.channels)


@functools.lru_cache(maxsize=16)
def _fits(backbone: str, weights: str, content, image_size: int, channels: int) -> None:
    del content  # what a file held when it was looked at
    _network(backbone, weights, image_size, channels)


def _check_cut(config: ExperimentConfig) -> None:
    """Makes the network and cuts it, where a name says where; the images' channels make no difference to it."""
    if config.trained_from not in (None, HEAD):
        _can_be_cut(config.backbone, config.trained_from, config.image_size)


@functools.lru_cache(maxsize=16)
def _can_be_cut(backbone: str, trained_from: str, image_size: int) -> None:
    backbones.cut_network(_network(backbone, "none", image_size, channels=3), trained_from)


def _network(backbone: str, weights: str, image_size: int, channels: int):
    settings = {"image_size": image_size} if backbone in backbones.KERAS_APPLICATIONS else {}
    return build.BACKBONES[backbone](channels, weights=weights, **settings)
