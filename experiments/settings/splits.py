"""Training and validation splits of a unit: folds, the test set, or held-out classes."""

from __future__ import annotations

import hashlib
import math
from typing import NamedTuple

import numpy as np

from common.data import Dataset, Examples, held_back_images, random_class_split, with_superclasses
from common.errors import check_given, invalid
from experiments.settings.config import ExperimentConfig
from experiments.settings.run_settings import FINAL


class Split(NamedTuple):
    """One unit's examples."""

    training: Examples  # the training images, labelled from 0
    queries: Examples
    gallery: Examples | None = None  # the searched images; None: the queries themselves
    # training images that a method watches, and that are not learned from; None without one
    watched: Examples | None = None


SPREAD_OF_CLASSES = 0.25  # standard deviation between classes of a class's mean MAP@R
LARGEST_ERROR = 0.1
MONITORED = {
    "conventional": "stops on the test set",
    "held_out": "stops on held-out classes",
    FINAL: "all training classes",
}
FEWEST_VALIDATION_CLASSES = math.ceil((SPREAD_OF_CLASSES / LARGEST_ERROR) ** 2)


def few_validation_classes(num_classes: int) -> str | None:
    """Warn if so few validation classes make selection mostly chance, else None.

    The mean over n classes drawn at random has a standard error of s / sqrt(n), where s is the standard deviation
    between classes: 0.246 for MAP@R of 120 test characters (a score in [0, 1] can have 0.5 at most). With s = 0.25 that
    is 0.18 for 2 classes and 0.125 for 4. Below 7 classes it exceeds 0.1, more than most methods differ by.
    """
    if num_classes >= FEWEST_VALIDATION_CLASSES:
        return None
    error = 100 * SPREAD_OF_CLASSES / math.sqrt(max(1, num_classes))
    return (
        f"validates on {num_classes} classes: other classes would change its score by about {error:.0f} points (one "
        f"standard error), so the selected step is mostly chance. {FEWEST_VALIDATION_CLASSES} or more are better: add "
        "classes, or use fewer folds (--num_folds)."
    )


def unit_label(config: ExperimentConfig, fold: int, repeat: int) -> str:
    """Name a unit among the others of its method."""
    if config.protocol is None:
        return f"fold {fold} repeat {repeat}"
    return f"{MONITORED[config.protocol]}, repeat {repeat}"


def unit_seed(seed: int, fold: int, repeat: int) -> int:
    """Derive a seed in [0, 2^31), distinct for every (seed, fold, repeat)."""
    digest = hashlib.sha256(f"{seed}/{fold}/{repeat}".encode()).digest()
    return int.from_bytes(digest[:4], "little") >> 1


def held_out_classes(
    dataset: Dataset, config: ExperimentConfig, fold: int, repeat: int
) -> tuple[np.ndarray, np.ndarray]:
    """Divide classes of protocol `held_out` into learned and held-out ones."""
    num_classes = dataset.train.num_classes
    fraction = check_given("held_out_fraction", config.held_out_fraction)
    learnt, kept_back = random_class_split(num_classes, 1 - fraction, unit_seed(config.seed, fold, repeat))
    if len(kept_back) < 2:
        raise invalid(
            "--held_out_fraction",
            received=fraction,
            expected=f"a share that keeps back two or more of the {num_classes} training classes",
            fix=f"Give {2 / num_classes:.2f} or more.",
        )
    return learnt, kept_back


def split_of(dataset: Dataset, config: ExperimentConfig, fold: int, repeat: int) -> Split:
    """Split a unit's examples by the protocol of its configuration.

    - fair: folds are contiguous blocks of the training classes (recipes: `fold_order`); one of them validates.
    - conventional: learns from all training classes and validates on the test set, as the literature does.
    - final: learns from all training classes for a fixed number of steps; the images of one fold's classes among them
      are embedded at each validation, without selection.
    - held_out: validates on some training classes, drawn at random for each repeat, and learns from the rest.

    A data set with a fixed validation set (collages, tokens) trains on all its training classes and validates on that
    set, except under the conventional protocol; its folds differ only by seed.

    The images that a method watches are taken from the training images, never from validation or test images.
    `left_out_images` takes the same images from any other method.
    """
    if config.sampler_part.of_superclasses:
        dataset = with_superclasses(dataset)
    split = _split_of_protocol(dataset, config, fold, repeat)
    seed = unit_seed(config.seed, fold, repeat)
    for method in config.methods:
        if (parts := method.hold_back(split.training.labels, seed)) is not None:
            kept, held = parts
            learned, watched = split.training.subset(kept).renumbered(), split.training.subset(held)
            return split._replace(training=learned, watched=watched)
    if config.left_out_images is not None:
        kept, _ = held_back_images(split.training.labels, config.left_out_images, seed)
        return split._replace(training=split.training.subset(kept).renumbered())
    return split


def _split_of_protocol(dataset: Dataset, config: ExperimentConfig, fold: int, repeat: int) -> Split:
    """Split a unit's examples before a method takes its share."""
    if config.protocol == "conventional":
        return Split(dataset.train, dataset.test, dataset.gallery)
    if dataset.validation is not None:
        return Split(dataset.train, dataset.validation)
    if config.protocol == "held_out":
        training_classes, validation_classes = held_out_classes(dataset, config, fold, repeat)
    else:
        folds = dataset.folds(config.num_folds)
        training_classes, validation_classes = folds[fold if config.fold_order == "forward" else -1 - fold]
    validation = dataset.train.select_classes(validation_classes).once_per_encounter()
    if config.protocol == FINAL:
        return Split(dataset.train, validation)
    return Split(dataset.train.select_classes(training_classes), validation)
