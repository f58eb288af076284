"""Recipe of your own photos; folds and batches that fit their classes."""

from __future__ import annotations

import collections
import math
import os
from collections.abc import Iterator, Mapping
from typing import Any

from common import backbones, data
from common.backbones.network_names import CHANNELS
from common.deployment.untrained import IMAGE_SIZE
from common.errors import InvalidInput, invalid, raise_all
from experiments.parts.datasets import DATASETS, traits_of
from experiments.parts.registry import POOLINGS
from experiments.recipes.draft import Draft
from experiments.recipes.small_images import EMOJI, small_images
from experiments.recipes.thesis import around_the_loss, conventional, loss
from experiments.settings.run_settings import (
    AVERAGE_POOLING,
    FINAL,
    IDENTITY_START,
    OWN_PHOTOS,
    RANDOM_START,
    SOFT_WHITENING,
    RunSettings,
)

NO_GPU = "no GPU is seen"  # a source
_FITS, _OF_WEIGHTS = "fits the", "the network that --weights is made for"  # beginnings of sources
_OF_WHOLE_NETWORKS = (  # settings that say what is trained, or have no effect on cached features of the backbone
    *("trained_from", "frozen_backbone", "lora_rank", "lora_norms", "num_prompts", "prompt_blocks", "layer_decay"),
    *("precision", "strategy", "replicas", "fold_batch_norm", "micro_batch", "image_noise"),
)
_SHARES = "0.25,0.5,0.75"  # of the way from the start to the trained weights
_MOST_FOLDS = 4
_TRAIN_FRACTION = 0.5  # of `load_image_folder`
_HELD_OUT_CLASSES = 2  # fewest to validate on: within one class, all neighbours are correct
_FEWEST_CLASSES = 2 * _HELD_OUT_CLASSES  # of two folds


def own_photos(draft: Draft) -> None:
    """Set the values of emoji, then those of photographs of any size.

    The network in this package is trained as it was on emoji. Validation on few classes is noisy, so a run is short.

    Raises:
        InvalidInput: data other than photographs.
    """
    if not draft.traits.photographs:
        photographs = [name for name, traits in DATASETS.items() if traits.photographs and traits.follows == name]
        received, expected = f"{OWN_PHOTOS} with {draft.dataset}", f"photographs: {', '.join(photographs)}"
        raise invalid("--recipe", received=received, expected=expected)
    draft.follow("emoji")
    small_images(draft)
    loss(draft)
    conventional(draft)
    source = f"--recipe={OWN_PHOTOS}"
    draft.set(source, **EMOJI)
    draft.set(source, image_size=IMAGE_SIZE, crop="thesis", samples_per_class=4, embedding_dim=512)
    draft.set(source, **_head(draft))
    draft.set(source, warm_up_epochs=0, warm_up_steps=0, plateau_patience=0)
    draft.set(source, steps_per_evaluation=100, max_steps=1000, patience=5)
    around_the_loss(draft)


def _head(draft: Draft) -> dict[str, Any]:
    """Return the head that begins with what is known without training.

    That is a soft whitening of average features, the identity behind another pooling, or principal axes if it is
    shorter. Of such runs, weights on the way from the start are candidates, too. Others begin at random. Average
    features and their closed forms are measured before training, other starts as a share of 0.
    """
    pooling, given = POOLINGS[draft.pooling], draft.given
    if pooling.project_first or pooling.combined_with or pooling.vectors > 1 or draft.loss.features:
        return {}
    if {"head_start", "matryoshka"} & given.keys():
        return {}
    channels = CHANNELS.get(draft.chosen("backbone"))
    if channels is None:
        return {}
    is_average = draft.pooling == AVERAGE_POOLING
    way = {} if "kept_share" in given else {"interpolation": _SHARES if is_average else f"0,{_SHARES}"}
    if given.get("embedding_dim", channels) != channels:
        return {"head_start": "pca", **way}
    start = SOFT_WHITENING if is_average else IDENTITY_START
    return {"head_start": start, "embedding_dim": channels, **way}


def trains_head_alone(recipe: str, given: Mapping[str, Any]) -> bool:
    """Return whether a recipe trains the head alone on a machine without a GPU."""
    is_free = given.keys().isdisjoint(_OF_WHOLE_NETWORKS) and given.get("weights") != "none"
    return recipe == OWN_PHOTOS and is_free


def fit_to_data(draft: Draft, dataset: data.Dataset, given: Mapping[str, Any]) -> None:
    """Reduce recipe values that are too large for few classes, unless given.

    - `num_folds`: as many as leave two validation classes in each, at most the recipe's.
    - `held_out_fraction`: at least two of the training classes.
    - `classes_per_batch`: at most the training classes of every fold. `samples_per_class` then rises to
      keep the batch size, to at most the images of the smallest training class.
    - `backbone`: the network of a `--weights` file.
    """
    values, num_classes = draft.values, dataset.train.num_classes
    source = f"{_FITS} {num_classes} training classes of your data"

    def set_unless_given(**fields: Any) -> None:
        before = {"num_folds": _MOST_FOLDS, **values}
        changed = {name: value for name, value in fields.items() if value != before.get(name)}
        draft.set(source, **{name: value for name, value in changed.items() if name not in given})

    network = network_of_weights(given)
    if network is not None and "backbone" not in given and traits_of(dataset.name).custom:
        keep_channels = [IDENTITY_START, *([] if "head_start" in given else [SOFT_WHITENING])]
        keeps_channels = values.get("head_start") in keep_channels and "embedding_dim" not in given
        draft.set(_OF_WEIGHTS, backbone=network, **({"embedding_dim": CHANNELS[network]} if keeps_channels else {}))
    is_by_recipe = values.get("head_start") == "pca" and "head_start" not in given
    if is_by_recipe and values["embedding_dim"] >= len(dataset.train) // 2:  # more axes than a fold of few images has
        draft.set(source, head_start=RANDOM_START, interpolation=None)
    if values.get("protocol") is None:
        set_unless_given(num_folds=_fitting_folds(num_classes, values.get("num_folds", _MOST_FOLDS)))
    if values.get("protocol") == "held_out":
        fewest = round(_HELD_OUT_CLASSES / num_classes, 4)
        set_unless_given(held_out_fraction=max(values["held_out_fraction"], fewest))
    most = training_classes(dataset, values)
    if values["classes_per_batch"] <= most or "classes_per_batch" in given:
        return
    batch = values["classes_per_batch"] * values["samples_per_class"]
    smallest_class = min(collections.Counter(dataset.train.labels.tolist()).values())
    samples = max(values["samples_per_class"], min(batch // most, smallest_class))
    set_unless_given(classes_per_batch=most, samples_per_class=samples)


def fitted_values(config: RunSettings) -> dict[str, Any]:
    """Return the configuration's values that data and machine have set, by field name."""
    fitted = [name for name, source in config.sources.items() if source.startswith((_FITS, _OF_WEIGHTS, NO_GPU))]
    return {name: getattr(config, name) for name in fitted if name != "embedding_dim"}  # it follows the network again


def network_of_weights(given: Mapping[str, Any]) -> str | None:
    """Return the network of an `.npz` given as `weights`, None if unknown."""
    path = given.get("weights")
    return backbones.network_of_file(path) if path is not None and os.path.isfile(path) else None


def training_classes(dataset: data.Dataset, values: Mapping[str, Any]) -> int:
    """Return the fewest training classes of any unit of a protocol.

    Of the values, it reads `protocol`, `num_folds` and `held_out_fraction`.
    """
    num_classes, protocol = dataset.train.num_classes, values.get("protocol")
    if dataset.validation is not None or protocol in ("conventional", FINAL):
        return num_classes
    if protocol == "held_out":
        return len(data.random_class_split(num_classes, 1 - values["held_out_fraction"], seed=0)[0])
    folds = dataset.folds(values.get("num_folds") or _fitting_folds(num_classes, _MOST_FOLDS))
    return min(len(training) for training, _ in folds)


def check_fits(dataset: data.Dataset, given: Mapping[str, Any], protocol: str | None) -> None:
    """Refuse command-line values that need more data."""
    raise_all(_misfits(dataset, given, protocol))


def _misfits(dataset: data.Dataset, given: Mapping[str, Any], protocol: str | None) -> Iterator[InvalidInput]:
    num_classes = dataset.train.num_classes
    folds = _fitting_folds(num_classes, _MOST_FOLDS) if protocol is None else None
    wanted = given.get("num_folds", folds)
    if protocol is None and dataset.validation is None:
        if "num_folds" not in given and num_classes < _FEWEST_CLASSES:
            yield _too_few_classes(dataset, given.get("train_fraction", _TRAIN_FRACTION))
        if "num_folds" in given and (wanted < 2 or num_classes // wanted < _HELD_OUT_CLASSES):
            fix = f"Give --num_folds={num_classes // 2} or fewer." if num_classes >= _FEWEST_CLASSES else "Add classes."
            expected = f"2 or more folds of two or more of the {num_classes} training classes, to validate on"
            yield invalid("--num_folds", received=wanted, expected=expected, fix=fix)
        wanted = wanted if 2 <= wanted <= num_classes else folds
    if "classes_per_batch" in given and protocol != "held_out" and num_classes >= 2:
        most = training_classes(dataset, {"protocol": protocol, "num_folds": wanted})
        if given["classes_per_batch"] > most:
            expected = f"at most {most}, which each run learns from of the {num_classes} training classes"
            fix = "Leave the flag out for as many as fit."
            if "train_fraction" in traits_of(dataset.name).takes:
                fix = f"{fix[:-1]}, or let a larger share of the classes train (--train_fraction)."
            yield invalid("--classes_per_batch", received=given["classes_per_batch"], expected=expected, fix=fix)


def _too_few_classes(dataset: data.Dataset, train_fraction: float) -> InvalidInput:
    num_training = dataset.train.num_classes
    received, fix = f"{num_training} training classes", "Let more classes train."
    if "train_fraction" in traits_of(dataset.name).takes:
        received = f"{num_training + dataset.test.num_classes} classes, of which {num_training} train"
        share = train_fraction if 0 < train_fraction < 1 else _TRAIN_FRACTION
        enough = max(_FEWEST_CLASSES + 1, math.ceil((_FEWEST_CLASSES - 0.5) / share))
        fix = f"Add classes, up to {enough} or more, or let a larger share of them train (--train_fraction)."
    expected = f"{_FEWEST_CLASSES} or more that train: each fold validates on {_HELD_OUT_CLASSES} of them, in turn"
    return invalid("number of classes", received=received, expected=expected, fix=fix)


def _fitting_folds(num_classes: int, most: int) -> int:
    return max(2, min(most, num_classes // _HELD_OUT_CLASSES))
