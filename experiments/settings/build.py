"""Construction of data sets, networks, poolings and losses by name and configuration."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import gsp_dml.method
from common import backbones, data, training
from common.backbones.by_name import BACKBONES as BACKBONES, check_network, network
from common.backbones.network_names import CLASS_TOKEN, PATCHES
from common.commands.command_line import globs_in
from common.errors import InvalidInput, check_choice, invalid
from common.files import default_cache_dir
from common.progress import write_notice
from experiments.parts.datasets import OF_CUSTOM_DATA
from experiments.parts.registry import CROPS, DATASETS as DATASETS, LOSSES as LOSSES, POOLINGS as POOLINGS
from experiments.settings.loss_building import (
    build_batches as build_batches,
    build_loss as build_loss,  # these are names of this module, too
    check_loss_name as check_loss_name,
    drawing_seed as drawing_seed,
    memory_of as memory_of,
    num_views_of,
)
from experiments.settings.run_settings import HEAD_STARTS, RANDOM_START, RunSettings

if TYPE_CHECKING:
    from tensorflow import keras

    from gsp_dml import ZeroShotPredictionLoss
    from gsp_dml.combined_head import CombinedSumHead


MAP_POOLINGS = tuple(name for name, each in POOLINGS.items() if not each.of_class_token)  # for any backbone
_OTHER_NAMES = {
    **dict.fromkeys(("avg", "average", "mean", "global_average_pooling"), "gap"),
    **dict.fromkeys(("max", "global_max_pooling"), "gmp"),
    **dict.fromkeys(("gem", "generalized_mean_pooling"), "gemean"),
    **dict.fromkeys(("generalized_sum", "generalized_sum_pooling"), "gsp"),
    **dict.fromkeys(("class_token", "token"), "cls"),
    **dict.fromkeys(("optimal_transport_pooling", "otp"), "otp_8x16"),
    "netvlad": "netvlad_8x16",
    "second_order_pooling": "gsop",
}
FEWEST_IMAGES = 2  # of a training class: a pair
DRAWN_BY = ("seed", *OF_CUSTOM_DATA)  # settings that choose classes and images


def load_dataset(name: str, data_dir: str | None, cache_dir: str | None, seed: int, **own: Any) -> data.Dataset:
    """Load a data set by name.

    Args:
        own: settings of custom data, see `ProtocolSettings`; None if not given.

    Raises:
        InvalidInput: files are missing (the message gives names, source and layout) or wrong.
    """
    check_choice("--dataset", name, DATASETS)
    known, given = DATASETS[name], {each: value for each, value in own.items() if value is not None}
    if not known.custom:
        return known.load(data_dir, cache_dir=cache_dir or default_cache_dir(), seed=seed, **given)
    fewest, skip_unreadable = given.pop("min_images", FEWEST_IMAGES), given.pop("skip_unreadable", False)
    if "exclude" in given:
        given["exclude"] = globs_in(given["exclude"])
    skipped: list[InvalidInput] = []
    if "exclude" in known.takes and skip_unreadable:  # names are found by walking through folders
        given["skipped"] = skipped
    dataset = known.load(data_dir, seed=seed, single_images=True, **given)
    if skipped:
        write_notice(f"{name}: images left out that are no files: {len(skipped):,}. The first: {skipped[0]}")
    if skip_unreadable:
        dataset = data.without_unreadable(dataset, image_cache(dataset, cache_dir))
    return data.without_small_classes(dataset, fewest)


def load_dataset_of(config: RunSettings, data_dir: str | None, cache_dir: str | None) -> data.Dataset:
    """Load a configuration's data set; arguments and errors as of `load_dataset`."""
    return load_dataset(config.dataset, data_dir, cache_dir, **drawn_by(config))


def drawn_by(config: RunSettings) -> dict[str, Any]:
    """Return the settings that choose classes and images."""
    return {name: getattr(config, name) for name in DRAWN_BY}


def data_fingerprint(dataset: data.Dataset, cache_dir: str | None = None) -> str:
    """Return a short text that differs whenever the data differ.

    It keeps runs on different data apart; see `data.dataset_fingerprint`. Digests of image files are kept in
    `cache_dir`.
    """
    return data.dataset_fingerprint(dataset, image_cache(dataset, cache_dir))


def prepare_dataset(dataset: data.Dataset, config: RunSettings, cache_dir: str | None) -> data.Dataset:
    """Make small copies of image files, once, to suit `config.image_size`.

    The published code's training crop reads the original files. Copies are low-pass filtered, so an evaluation without
    that filter reads the originals, too. Originals in use are decoded once to find damaged ones. With `config.views`,
    training sees only that many views of each image.
    """
    if config.views is not None:
        dataset = data.fixed_views(dataset, config.views, config.seed)
    if dataset.kind != "image_files":
        return dataset
    originals: tuple[str, ...] = ("train",) if config.crop == "published_code" else ()
    if not config.evaluation_antialias:
        originals = tuple(part for part, _ in data.parts_of(dataset))
    side = data.CenterCrop(config.image_size).shorter_side
    return data.with_copies(dataset, image_cache(dataset, cache_dir), side, originals, config.copies)


def image_cache(dataset: data.Dataset, cache_dir: str | None) -> str:
    """Return the folder of a data set's image copies."""
    return os.path.join(cache_dir or default_cache_dir(), "images", dataset.name)


def build_augmentation(config: RunSettings, dataset: data.Dataset):
    """Return the training augmentation, a function of (image, seed)."""
    if dataset.readers is not None:
        return dataset.readers.training
    choices = [name for name, crop in CROPS.items() if crop.of_files == (dataset.kind == "image_files")]
    if config.crop not in choices:
        expected = f"one of {', '.join(choices)} for {dataset.name}"
        raise invalid("--crop", received=config.crop, expected=expected)
    return CROPS[config.crop](config.own("crop"), size=config.image_size)


def build_inputs(config: RunSettings, dataset: data.Dataset, decoded_images_mb: float = 0) -> data.EvaluationInputs:
    """Return the evaluation's inputs: centre crops of files, other images unchanged."""
    preprocessing: Any = data.Identity()
    if dataset.readers is not None:
        preprocessing = dataset.readers.evaluation
    elif dataset.kind == "image_files":
        preprocessing = data.CenterCrop(config.image_size, antialias=config.evaluation_antialias)
    return data.EvaluationInputs(preprocessing, evaluation_batch_size(config), decoded_images_mb)


def evaluation_batch_size(config: RunSettings) -> int:
    """Return the images per evaluation batch, in [16, 512]."""
    return max(16, min(64 * 227**2 // config.image_size**2, 512))


def check_pooling_name(name: str) -> str:
    """Return a pooling's name, or raise `InvalidInput` that lists the poolings."""
    return check_choice("--pooling", name, POOLINGS, _OTHER_NAMES)


def check_backbone(config: RunSettings, dataset: data.Dataset) -> None:
    """Raise `InvalidInput` if the network is unknown or cannot read the data."""
    check_network(config.backbone, tokens_of(config.pooling), config.output_stride)
    if (dataset.kind == "tokens") != (config.backbone == "token_embedding"):
        raise InvalidInput(f"--backbone={config.backbone} cannot read {dataset.name} ({dataset.kind}).")


def build_backbone(config: RunSettings, dataset: data.Dataset, layout: str | None = None) -> keras.Model:
    """Build the network before the pooling, with its initial parameters.

    Without a `layout`, ResNet-50 has that of its initial parameters.
    """
    check_backbone(config, dataset)
    if dataset.kind == "tokens":
        return backbones.token_embedding(int(dataset.train.arrays.max()) + 1, config.embedding_dim)
    settings: dict[str, Any] = {"frozen_batch_norm": config.frozen_batch_norm}
    if config.backbone == "bn_inception":
        settings["input_mean"] = config.input_mean
    settings |= shape_settings(config) | ({"layout": layout} if layout else {})
    return network(config.backbone, dataset.channels, weights=config.weights, **settings)


def shape_settings(config: RunSettings) -> dict[str, Any]:
    """Return the arguments of `network` that decide its layers."""
    settings: dict[str, Any] = {"image_size": config.image_size, "output_stride": config.output_stride}
    if config.backbone == "resnet50":
        settings["layout"] = backbones.resnet50_layout(config.weights, config.output_stride)
    if config.num_prompts is not None:
        settings |= {"num_prompts": config.num_prompts, "prompt_blocks": config.prompt_blocks}
    return settings | {"tokens": tokens_of(config.pooling), "own": config.own("backbone")}


def tokens_of(pooling_name: str) -> str:
    """Return a pooling's tokens of a transformer: patches or class token."""
    return CLASS_TOKEN if POOLINGS[pooling_name].of_class_token else PATCHES


def build_head(config: RunSettings) -> training.EmbeddingHead | CombinedSumHead:
    """Build pooling and projection, in the pooling's order; tokens need no projection."""
    distilled = any(method.distils for method in config.methods)
    if config.head_start != RANDOM_START:
        flag = f"--head_start={config.head_start}"
        _check_linear_layer(config, flag)
        if feature_sizes_of(config):
            expected = "a loss with one feature: the closed form is one embedding"
            raise invalid(f"--loss with {flag}", received=config.loss, expected=expected, fix="Or remove --head_start.")
    if distilled:
        _check_linear_layer(config, f"--loss={config.loss}")
    pooling = POOLINGS[config.pooling]
    layer = pooling.layer(config.own("pooling"), config.batch_size)
    if config.backbone == "token_embedding":
        if pooling.vectors > 1 or pooling.combined_with:
            message = f"--pooling={config.pooling} does not pool tokens, which are not projected. Use gap or gsp."
            raise InvalidInput(message)
        return training.EmbeddingHead(layer, None)
    if pooling.combined_with:
        from gsp_dml.combined_head import CombinedSumHead

        return CombinedSumHead(layer, config.embedding_dim, aggregation=pooling.combined_with)
    if pooling.vectors > 1 and config.loss.features:
        received = f"{config.pooling} with --loss={config.loss}"
        expected = "a pooling whose vector is projected as a whole: a feature is a slice of it"
        raise invalid("--pooling", received=received, expected=expected, fix="Use gap, for example.")
    if config.embedding_dim % pooling.vectors:
        raise invalid("--embedding_dim", received=config.embedding_dim, expected=f"a multiple of {pooling.vectors}")
    dim, use_bias = config.embedding_dim // pooling.vectors, config.head_start in HEAD_STARTS
    return training.EmbeddingHead(
        layer, dim, project_first=pooling.project_first, use_bias=use_bias, gives_features=distilled
    )


def _check_linear_layer(config: RunSettings, flag: str) -> None:
    """Refuse a flag unless one linear layer follows the pooling."""
    pooling = POOLINGS[config.pooling]
    if pooling.project_first or pooling.combined_with or config.backbone == "token_embedding":
        at = f"{config.pooling} on --backbone={config.backbone}"
        expected = "a pooling with one linear layer behind it, such as gap, gmp or gemean"
        raise invalid(f"--pooling with {flag}", received=at, expected=expected, fix=f"Or remove {flag.split('=')[0]}.")


def feature_sizes_of(config: RunSettings) -> tuple[int, ...] | None:
    """Return the components of each feature of the embedding; None for a single feature."""
    sizes = (method.feature_sizes(config.embedding_dim, config.methods) for method in config.methods)
    return next(filter(None, sizes), None)


def build_attribute_loss(config: RunSettings, num_classes: int) -> ZeroShotPredictionLoss | None:
    """Build the zero-shot prediction loss over GSP's attributes, or return None."""
    zero_shot = config.methods_of(gsp_dml.method.Method)
    return zero_shot[0].attribute_loss(num_classes, config.embedding_dim) if zero_shot else None


def perturbations_of(config: RunSettings) -> training.Perturbations | None:
    """Return what perturbs images and features in training, if anything."""
    strengths = config.image_noise, config.feature_dropout, config.feature_noise
    return training.Perturbations(*strengths, config.seed) if any(strengths) else None


def build_model(
    config: RunSettings,
    dataset: data.Dataset,
    num_classes: int,
    seed: int | None = None,
    num_examples: int | None = None,
    layout: str | None = None,
) -> training.EmbeddingModel:
    """Build a configuration's model in its precision, with initial backbone parameters.

    Args:
        num_classes: training classes, for proxies and label embeddings.
        seed: of the unit, see `build_loss`; None for a model that is not trained.
    """
    from common.training.devices import precision_policy

    with precision_policy(config.precision):
        # Keep this order: initial weights are drawn in sequence, a loss's proxies after the network.
        head = build_head(config)
        backbone = build_backbone(config, dataset, layout)
        num_channels = backbone.output_shape[-1]
        if config.frozen_backbone:
            backbone.trainable = False
        if config.lora_rank is not None:
            backbones.enable_lora(backbone, config.lora_rank, train_norms=config.lora_norms)
        if config.trained_from is not None:
            backbone = backbones.cut_network(backbone, config.trained_from)
        model = training.EmbeddingModel(
            backbone,
            head,
            build_loss(config, num_classes, seed, num_examples, num_channels),
            normalization=config.normalization,
            attribute_loss=build_attribute_loss(config, num_classes),
            attribute_weight=next((each.weight for each in config.methods_of(gsp_dml.method.Method)), 0.0),
            feature_sizes=feature_sizes_of(config),
            num_views=num_views_of(config),
            micro_batch=config.micro_batch,
            perturbations=perturbations_of(config),
        )
        if config.fold_batch_norm:
            model.fold_batch_norm()
        return model
