"""Construction of a run's metric loss and batches."""

from __future__ import annotations

import numpy as np

import ccp_dml.method
from common import data, losses
from common.errors import invalid
from common.training.method import LossInputs, MakeLoss
from experiments.parts.registry import LOSSES, MINERS
from experiments.settings.method_names import FORM, PAIR_LOSSES, parse_loss, suggested_loss
from experiments.settings.run_settings import RunSettings


def check_loss_name(name: str) -> None:
    """Raise `InvalidInput` that lists the losses if `name` is unknown."""
    if parse_loss(name).base not in LOSSES:
        forms = f"{FORM} with {', '.join(PAIR_LOSSES)} and {', '.join(MINERS)}: c1+xbm, margin+distance+rho, ..."
        expected = f"one of {', '.join(LOSSES)}, {forms}, or a loss of a --plugin"
        raise invalid("--loss", received=name, expected=expected, fix=suggested_loss(name))


def num_views_of(config: RunSettings) -> int:
    """Return the occurrences of each image in its batch."""
    return max([1, *(method.num_views for method in config.methods)])


def drawing_seed(config: RunSettings, seed: int) -> int:
    """Return the losses' seed: the unit's or the configuration's, see `build_loss`."""
    return seed if any(method.draws_by_run for method in config.methods) else config.seed


def build_loss(
    config: RunSettings,
    num_classes: int,
    seed: int | None = None,
    num_examples: int | None = None,
    num_channels: int = 1,
) -> losses.MetricLoss:
    """Build the metric loss with the methods around it.

    A single mined loss draws with the configuration's seed, equal in all folds: any other would change the results of
    earlier runs with the same hash. PADS, and each task of a sum, draw with the unit's seed plus the task's index.

    Args:
        seed: of the unit; None: that of the configuration.
        num_examples: training images, to be grouped; None: as many as groups.
        num_channels: components of the pooled features, which are distilled.
    """

    def base(dim: int, seed: int) -> losses.MetricLoss:
        del seed
        anchors = next((each.anchors for each in config.methods_of(ccp_dml.method.Anchors)), "embeddings")
        return _base_loss(config, num_classes, dim, anchors=anchors)

    def task_loss(num_classes: int, dim: int) -> losses.MetricLoss:
        return _loss_of_tasks(config, num_classes, dim)

    make: MakeLoss = base
    of_run = config.batch_size, config.normalization, config.monitor, config.methods
    inputs = LossInputs(num_classes, num_examples, num_channels, *of_run, task_loss)
    for method in config.methods:
        make = method.wrap(make, inputs)
    return make(config.embedding_dim, config.seed if seed is None else drawing_seed(config, seed))


def _base_loss(config: RunSettings, num_classes: int, dim: int, **given: str) -> losses.MetricLoss:
    """Build the loss that the name begins with."""
    sizes = {"num_classes": num_classes, "embedding_dim": dim, "normalization": config.normalization}
    return config.loss.part(config.own("loss"), **sizes, **given)


def _loss_of_tasks(config: RunSettings, num_classes: int, dim: int) -> losses.MetricLoss:
    """Build the name's loss if it is one of triplets, else the dissertation's margin loss."""
    if config.loss.part.of_triplets:
        return _base_loss(config, num_classes, dim)
    space: dict = {"normalization": config.normalization}
    return losses.MarginLoss(None, 0.2, 1.2, **space)


def build_batches(config: RunSettings, labels: np.ndarray, seed: int, superclasses: np.ndarray | None = None):
    """Build the sampler of training batches for `labels` `[examples]`.

    With two views, each image is in its batch twice.

    Args:
        superclasses: `[examples]`, for their sampler alone.

    Raises:
        InvalidInput: a method cannot use the order of classes in a batch.
    """
    part = config.sampler_part
    of_run = {"labels": labels, "superclasses": superclasses, "seed": seed}
    given = {name: getattr(config, name) for name in part.given if name not in of_run}
    batches = part(config.own("sampler"), **given, **of_run)
    for method in config.methods:
        method.check_batches(batches.class_places)
    return data.TwoViews(batches) if num_views_of(config) == 2 else batches


def memory_of(config: RunSettings, batches):
    """Return what `build_batches` has built of a sampler that chooses by embeddings; else None."""
    inner = batches.batches if isinstance(batches, data.TwoViews) else batches
    return inner if config.sampler_part.by_embeddings else None
