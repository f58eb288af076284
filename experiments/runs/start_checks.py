"""Checks before a run begins: before images, folders or traces."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from common import backbones
from common.backbones.initial_weights import check_weights, is_file, may_be_transformer, preset_digest, weights_file
from common.backbones.network_names import HEAD
from common.commands.exit_code import import_tensorflow
from common.commands.plugins import failure
from common.data import Dataset, Examples, contiguous_folds
from common.errors import InvalidInput, check_all, check_choice, invalid, raise_all
from common.progress import write_notice
from experiments.parts.datasets import traits_of
from experiments.preparation.machine import GPU, device_line
from experiments.runs.cost import seconds_on_processor
from experiments.runs.trained_model import check_start
from experiments.settings import build
from experiments.settings.built_run import BuiltRun
from experiments.settings.config import ExperimentConfig
from experiments.settings.splits import Split, split_of

_BEFORE_THE_MODEL = ("dataset", "sampler", "crop", "optimizer")  # kinds of parts that no model has
MOST_HOURS = 24  # of training on a processor that begin without --allow_cpu


def checked_with_data(
    checks: Iterable[Callable[[], Any]], configs: Iterable[ExperimentConfig], load: Callable[[], Dataset | None]
) -> list[Any]:
    """Run other checks, check configurations, and load their data.

    Embedded data, which cannot be missing, are only loaded if all else is right.

    Args:
        checks: as for `check_all`.
        configs: of one data set; none if nothing is trained.
        load: loads the data set.

    Returns:
        What the checks return, and the data set.

    Raises:
        InvalidInput: everything that is wrong: weights, layers, missing data, and batches of more classes than the data
            have (without data: than were published).
    """
    chosen = tuple(dict.fromkeys(configs))
    of_configurations = functools.partial(check_configurations, chosen) if chosen else lambda: None
    try:
        _, *found = check_all([of_configurations, *checks])
    except InvalidInput as error:
        if chosen and traits_of(chosen[0].dataset).needs_files:
            check_all(
                [functools.partial(raise_all, [error]), lambda: _check_first_folds(chosen, _loaded(chosen, load))]
            )
        raise
    return [*found, _loaded(chosen, load)]


def _loaded(configs: Iterable[ExperimentConfig], load: Callable[[], Dataset | None]) -> Any:
    """Load the data, or refuse also batches that the published data do not fit."""
    try:
        return load()
    except InvalidInput as error:
        of_batches = (functools.partial(_check_published_classes, config) for config in configs)
        check_all([functools.partial(raise_all, [error]), *of_batches])
        raise


def _check_first_folds(configs: Iterable[ExperimentConfig], dataset: Dataset) -> None:
    check_all(functools.partial(_check_on_split, config, dataset, 0, 0) for config in configs)


def check_configurations(configs: Iterable[ExperimentConfig]) -> None:
    """Name the device; refuse unavailable weights and invalid layer settings, without reading data."""
    write_notice(device_line())
    check_all(functools.partial(_check_without_data, config) for config in dict.fromkeys(configs))


def check_hours(configs: Iterable[ExperimentConfig]) -> None:
    """Refuse more than a day of training on a machine without a GPU.

    The user's own data and heads on cached features are not counted.
    """
    from common.retrieval.search.blocked_search import available_threads  # imports TensorFlow

    line = device_line()
    if line.startswith(GPU):
        return
    counted = [each for each in configs if not traits_of(each.dataset).custom and not each.cached_features]
    hours = sum(seconds_on_processor(each, available_threads()) for each in counted) / 3600
    if hours > MOST_HOURS:
        raise InvalidInput(
            f"{len(counted)} runs take about {hours:,.0f} hours on this machine's processor (estimated), at most "
            f"{MOST_HOURS} are begun. {line}. Use a machine with a GPU (docs/devices.md), a smaller --budget, or "
            "--allow_cpu to train here."
        )


def _check_without_data(config: ExperimentConfig) -> None:
    def network() -> None:
        if config.lora_rank is not None:
            backbones.check_lora(config.lora_rank)
        build.check_network(config.backbone, build.tokens_of(config.pooling), config.output_stride)
        weights = functools.partial(check_weights, config.backbone, config.weights)
        check_all([weights, lambda: _check_cut(config), lambda: _check_fold(config)])

    def parts() -> None:
        _check_parts(config, max(2, config.classes_per_batch))

    check_all([lambda: _check_devices(config), network, parts])


def check_unit(config: ExperimentConfig, dataset: Dataset, fold: int, repeat: int) -> None:
    """Refuse a unit that these data cannot train; read labels only."""
    check_all(
        [
            lambda: _check_devices(config),
            lambda: check_weights(config.backbone, config.weights),
            lambda: config.start_from is not None and check_start(config, fold, repeat),
            lambda: _check_on_split(config, dataset, fold, repeat),
            lambda: _check_backbone(config, dataset),
        ]
    )


def check_plugins(config: ExperimentConfig, dataset: Dataset, fold: int, repeat: int) -> None:
    """Build a model with parts of plug-ins on two images; refuse errors."""
    found = [provider for kind, provider in config.providers().items() if kind not in _BEFORE_THE_MODEL]
    if not found:
        return
    run = BuiltRun(config, dataset, fold, repeat)
    try:
        run.built_model()
    except InvalidInput:
        raise
    except Exception as error:
        raise failure(f"{config.name} cannot train with the {found[0]}", error, found[0].plugin) from error


def _check_on_split(config: ExperimentConfig, dataset: Dataset, fold: int, repeat: int) -> None:
    split = split_of(dataset, config, fold, repeat)
    training = split.training

    def batches_and_methods() -> None:
        _check_classes(config, training.num_classes)
        run = BuiltRun(config, dataset, fold, repeat)
        check_all(functools.partial(method.check, run) for method in config.methods)

    check_all(
        [
            lambda: _check_split(split, dataset, config, fold),
            lambda: build.build_augmentation(config, dataset),
            batches_and_methods,
            lambda: _check_parts(config, training.num_classes),
        ]
    )


def _check_published_classes(config: ExperimentConfig) -> None:
    """Check batches by the published number of classes, if known."""
    size = traits_of(config.dataset).size
    if size is None:
        return
    num_classes = size.classes
    if config.protocol is None:
        num_classes = min(len(learned) for learned, _ in contiguous_folds(num_classes, config.num_folds))
    _check_classes(config, num_classes)


def _check_classes(config: ExperimentConfig, num_classes: int) -> None:
    if config.classes_per_batch > num_classes and config.sampler_part.of_classes:
        raise invalid(
            "--classes_per_batch",
            received=config.classes_per_batch,
            expected=f"at most the number of training classes, {num_classes}",
            fix=f"Give --classes_per_batch={num_classes} or fewer.",
        )


def _check_devices(config: ExperimentConfig) -> None:
    """Check this host's devices, before TensorFlow begins to work."""
    if config.replicas is None:
        return
    tf = import_tensorflow()

    from common.training.devices import IS_KERAS_3, check_replicas

    if not IS_KERAS_3 and not config.frozen_batch_norm:
        expected = "--frozen_batch_norm on Keras 2 with --strategy=mirrored"
        fix = "Keras 3 trains batch normalisation with the statistics of all replicas."
        raise invalid("--frozen_batch_norm", received=False, expected=expected, fix=fix)
    check_replicas(config.replicas)
    tf.get_logger().setLevel("WARNING")  # otherwise it logs every traced sum over replicas


def _check_parts(config: ExperimentConfig, num_classes: int) -> None:
    """Build and discard the layers behind the backbone to validate their settings."""
    from common.backbones.bn_inception import INPUT_MEANS

    check_all(
        [
            lambda: check_choice("--input_mean", config.input_mean, INPUT_MEANS),
            lambda: build.build_head(config),
            lambda: build.build_loss(config, num_classes),
            lambda: build.build_attribute_loss(config, num_classes),
        ]
    )


def _check_split(split: Split, dataset: Dataset, config: ExperimentConfig, fold: int) -> None:
    """Require two classes on every side, so that retrieval can fail."""
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
                received="classes of one image alone" + ", or of one encounter" * (examples.encounters is not None),
                expected=f"a class with two, or with one in the gallery, to {what} on",
            )


def _has_relevant(queries: Examples, gallery: Examples | None) -> bool:
    if gallery is not None:
        return bool(np.isin(queries.labels, gallery.labels).any())
    return bool(np.unique(queries.labels, return_counts=True)[1].max() > 1)


def _check_backbone(config: ExperimentConfig, dataset: Dataset) -> None:
    """Build the backbone once if weights or image size may not fit."""
    build.check_backbone(config, dataset)
    _check_cut(config)
    _check_fold(config)
    if config.micro_batch and config.backbone != "token_embedding":
        _can_be_split(config.backbone, config.frozen_batch_norm, **build.shape_settings(config))
    sized = config.backbone in backbones.KERAS_APPLICATIONS or may_be_transformer(config.backbone)
    adapted = config.lora_rank, config.layer_decay
    if config.weights == "none" and not sized and not config.own("backbone") and adapted == (None, None):
        return
    content: object = weights_file(config.weights) if is_file(config.weights) else None
    if backbones.is_preset(config.backbone):
        content = preset_digest(config.backbone, config.weights)
    _fits(config.backbone, config.weights, content, dataset.channels, *adapted, **build.shape_settings(config))


@functools.lru_cache(maxsize=16)
def _fits(
    backbone: str,
    weights: str,
    content: object,
    channels: int,
    lora_rank: int | None,
    layer_decay: float | None,
    **shape: Any,
) -> None:
    del content  # what a file held when it was looked at
    network = build.network(backbone, channels, weights=weights, **shape)
    if lora_rank is not None:
        backbones.enable_lora(network, lora_rank)
    if layer_decay is not None:
        backbones.block_rates(network, layer_decay)


def _check_cut(config: ExperimentConfig) -> None:
    """Build and cut the network at a named layer, ignoring image channels."""
    if config.trained_from not in (None, HEAD):
        _can_be_cut(config.backbone, config.trained_from, **build.shape_settings(config))


@functools.lru_cache(maxsize=16)
def _can_be_cut(backbone: str, trained_from: str, **shape: Any) -> None:
    backbones.cut_network(build.network(backbone, channels=3, weights="none", **shape), trained_from)


@functools.lru_cache(maxsize=16)
def _can_be_split(backbone: str, frozen_batch_norm: bool, **shape: Any) -> None:
    from common.training.devices import check_micro_batches

    settings = {"weights": "none", "frozen_batch_norm": frozen_batch_norm, **shape}
    check_micro_batches(build.network(backbone, 3, **settings), jit_compile=False)


def _check_fold(config: ExperimentConfig) -> None:
    """Check that a network to be folded has batch normalisation."""
    if not config.fold_batch_norm:
        return
    if config.backbone == "token_embedding" or not _num_folded(config.backbone, **build.shape_settings(config)):
        expected = f"off with --backbone={config.backbone}, which has no batch normalisation behind a convolution"
        raise invalid("--fold_batch_norm", received=True, expected=expected)


@functools.lru_cache(maxsize=16)
def _num_folded(backbone: str, **shape: Any) -> int:
    return backbones.folded_network(build.network(backbone, channels=3, weights="none", **shape))[1]
