"""From names and a configuration to data sets, networks, poolings and losses: plain dictionaries of constructors."""

from __future__ import annotations

import dataclasses
import os
import pathlib

import numpy as np
import tensorflow as tf

from common import backbones, data, losses, pooling
from common.ops.checks import InvalidInput, check_choice
from common.training import EmbeddingHead, EmbeddingModel
from experiments.config import ExperimentConfig
from gsp_dml import GeneralizedSumPooling, ZeroShotPredictionLoss

keras = tf.keras

DATASETS = {
    "glyphs": data.load_glyphs,
    "glyph_collage": data.load_glyph_collage,
    "synthetic_tokens": data.load_synthetic_tokens,
    "cars196": data.load_cars196,
    "cub200": data.load_cub200,
    "sop": data.load_stanford_online_products,
    "inshop": data.load_in_shop,
    "folder": data.load_image_folder,
}

LOSSES = {
    "c1": lambda c, classes: losses.CosineContrastive(margin=c.margin, normalization=c.normalization),
    "c2": lambda c, classes: losses.Contrastive(c.positive_margin, c.negative_margin, normalization=c.normalization),
    "triplet": lambda c, classes: losses.Triplet(c.margin, normalization=c.normalization),
    "ms": lambda c, classes: losses.MultiSimilarity(c.ms_alpha, c.ms_beta, c.ms_base, normalization=c.normalization),
    "pnca": lambda c, classes: losses.ProxyNCA(
        classes, c.embedding_dim, temperature=c.temperature, normalization=c.normalization
    ),
    "panchor": lambda c, classes: losses.ProxyAnchor(
        classes, c.embedding_dim, margin=c.panchor_margin, scale=c.panchor_scale, normalization=c.normalization
    ),
    "softtriple": lambda c, classes: losses.SoftTriple(
        classes,
        c.embedding_dim,
        centers_per_class=c.centers_per_class,
        scale=c.softtriple_scale,
        gamma=c.softtriple_gamma,
        tau=c.softtriple_tau,
        margin=c.softtriple_margin,
        normalization=c.normalization,
    ),
}
PAIR_LOSSES = ("c1", "c2", "triplet", "ms")

POOLINGS = {
    "gap": lambda c: pooling.GlobalAveragePooling(),
    "gmp": lambda c: pooling.GlobalMaxPooling(),
    "gap+gmp": lambda c: pooling.GlobalAverageMaxPooling(),
    "gsp": lambda c: GeneralizedSumPooling(
        num_prototypes=c.num_prototypes,
        transport_ratio=c.transport_ratio,
        smoothing=c.smoothing,
        solver=c.solver,
        num_iterations=c.num_iterations,
        memory_size=c.memory_size,
        return_attributes=True,
    ),
}
PROJECT_FIRST = ("gsp",)

BACKBONES = {
    "resnet10": lambda c, channels: backbones.resnet10(channels),
    "resnet20": lambda c, channels: backbones.resnet20(channels),
    "mobilenet_v2": lambda c, channels: backbones.mobilenet_v2(frozen_batch_norm=c.frozen_batch_norm),
    "resnet50": lambda c, channels: backbones.resnet50(frozen_batch_norm=c.frozen_batch_norm),
    "token_embedding": lambda c, channels: backbones.token_embedding(data.NUM_TOKENS, c.embedding_dim),
}
AUGMENTATIONS = {
    "thesis": lambda c: data.ThesisCrop(c.image_size, flip=True),
    "published_code": lambda c: data.PublishedCodeCrop(c.image_size, flip=True),
    "shift": lambda c: data.RandomShift(2),
    "none": lambda c: data.NoAugmentation(),
}


def check_loss_name(name: str) -> None:
    """Raises `InvalidInput` that lists the losses, if `name` is none of them and no `xbm(PAIR_LOSS)`."""
    if name.startswith("xbm(") and name.endswith(")"):
        check_choice("--loss inside xbm( )", name[4:-1], PAIR_LOSSES)
    elif name not in LOSSES:
        choices = [*LOSSES, *(f"xbm({loss})" for loss in PAIR_LOSSES)]
        check_choice("--loss", name, choices)


def default_cache_dir() -> str:
    """Where prepared images are kept when `--cache_dir` is not given."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "deep_metric_learning")


def load_dataset(name: str, data_dir: str | None, cache_dir: str | None, seed: int) -> data.Dataset:
    """Loads a data set by name.

    Raises:
        InvalidInput: files are missing (says which, from where and in which layout) or wrong.
    """
    check_choice("--dataset", name, DATASETS)
    return DATASETS[name](data_dir, cache_dir=cache_dir or default_cache_dir(), seed=seed)
