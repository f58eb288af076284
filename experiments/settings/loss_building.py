"""Construction of a run's metric loss and batches."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

import ccp_dml
import milbich_dml
from common import data, losses, references
from common.data.memory_batches import CRITERIA
from common.errors import check_choice, invalid
from experiments.parts.registry import LOSSES
from experiments.settings.method_names import (
    DANCE,
    FORM,
    GROUPS,
    HEADS,
    INTRA,
    MINERS,
    PADS,
    PAIR_LOSSES,
    SHARED,
    parse_loss,
    suggested_loss,
)
from experiments.settings.methods.ccp import AnchorSettings, ProjectionSettings
from experiments.settings.methods.composers import (
    MemorySettings,
    RegularizerSettings,
    RhoSettings,
    SelfDistillationSettings,
)
from experiments.settings.methods.features import (
    IN_TURN,
    DanceSettings,
    FeatureSettings,
    GroupSettings,
    SharedSettings,
    TurnSettings,
)
from experiments.settings.methods.gsp import ZeroShotSettings
from experiments.settings.methods.pads import PadsSettings
from experiments.settings.run_settings import SUPERCLASSES, RunSettings

DISCRIMINATIVE = "disc"  # the name of the first feature
_HEADS = ("disc_2", "disc_3", "disc_4")  # with the first as many as DiVA has
_DRAWS = {
    SHARED: 1,
    INTRA: 2,
    DANCE: 3,
    GROUPS: 4,
    **dict(zip(_HEADS, (5, 6, 7))),
}  # added to a seed; append new ones, to preserve older runs


def check_loss_name(name: str) -> None:
    """Raise `InvalidInput` that lists the losses if `name` is unknown."""
    if parse_loss(name).base not in LOSSES:
        forms = f"{FORM} with {', '.join(PAIR_LOSSES)} and {', '.join(MINERS)}: c1+xbm, margin+distance+rho, ..."
        expected = f"one of {', '.join(LOSSES)}, {forms}, or a loss of a --plugin"
        raise invalid("--loss", received=name, expected=expected, fix=suggested_loss(name))


def feature_names(config: RunSettings) -> tuple[str, ...]:
    """Return the embedding's features in order; empty for a single one."""
    features = config.loss.features
    features = _HEADS if features == (HEADS,) else features
    shared = config.find(SharedSettings)
    return () if not features or (shared and shared.single_encoder) else (DISCRIMINATIVE, *features)


def feature_sizes_of(config: RunSettings) -> tuple[int, ...] | None:
    """Return the components of each of `feature_names`; None for a single feature."""
    names = feature_names(config)
    return milbich_dml.feature_sizes(config.embedding_dim, len(names)) if names else None


def feature_slices(config: RunSettings) -> dict[str, slice]:
    """Return the slice of each of `feature_names` in the embedding, if several."""
    sizes = feature_sizes_of(config) or ()
    ends = itertools.accumulate(sizes)
    return {name: slice(end - size, end) for name, size, end in zip(feature_names(config), sizes, ends)}


def num_views_of(config: RunSettings) -> int:
    """Return the occurrences of each image in its batch: two for `dance`."""
    return 2 if DANCE in config.loss.features else 1


def has_places(config: RunSettings) -> bool:
    """Return whether labels of a batch also include the training images' indices."""
    return GROUPS in config.loss.features


def drawing_seed(config: RunSettings, seed: int) -> int:
    """Return the losses' seed: the unit's or the configuration's, see `build_loss`."""
    name = config.loss
    return seed if name.features or name.miner == PADS else config.seed


def build_loss(
    config: RunSettings,
    num_classes: int,
    seed: int | None = None,
    num_examples: int | None = None,
    num_channels: int = 1,
) -> losses.MetricLoss:
    """Build the metric loss with its name's miner, memory, tasks and distillation.

    A single mined loss draws with the configuration's seed, equal in all folds: any other would change the results of
    earlier runs with the same hash. PADS, and each task of a sum, draw with the unit's seed plus the task's index.

    Args:
        seed: of the unit; None: that of the configuration.
        num_examples: training images, to be grouped; None: as many as groups.
        num_channels: components of the pooled features, which are distilled.
    """
    check_loss_name(config.loss)
    seed = config.seed if seed is None else drawing_seed(config, seed)
    features, dim = config.find(FeatureSettings), config.embedding_dim
    if distillation := config.find(SelfDistillationSettings):
        return distillation.around(
            lambda size, place: _first_loss(config, num_classes, size, seed + place), dim, num_channels
        )
    if features is None:
        return _first_loss(config, num_classes, dim, seed)
    sizes = feature_sizes_of(config)
    turns = config.find(TurnSettings)
    in_turn = turns is not None and turns.feature_schedule == IN_TURN
    if sizes is None:  # both tasks on all components: one encoder (Milbich, equation 3.5)
        shared = _task(config, SHARED, num_classes, dim, seed)
        both = [_first_loss(config, num_classes, dim, seed), shared]
        weights = [1.0, features.feature_weight or 0.0]
        return milbich_dml.InTurnLoss(both) if in_turn else losses.WeightedSumLoss(both, weights)
    others = zip(feature_names(config)[1:], sizes[1:])
    tasks = {name: _task(config, name, num_classes, size, seed, num_examples) for name, size in others}
    return milbich_dml.feature_tasks_loss(
        _first_loss(config, num_classes, sizes[0], seed),
        tasks,
        sizes,
        weight=1.0 if features.feature_weight is None else features.feature_weight,
        decorrelation=features.decorrelation,
        reduction=features.decorrelation_reduction,
        in_turn=in_turn,
    )


def _first_loss(config: RunSettings, num_classes: int, dim: int, seed: int) -> losses.MetricLoss:
    """Build the name's first loss, for embeddings with `dim` components."""
    miner = config.loss.miner
    anchored, ccp = config.find(AnchorSettings), config.find(ProjectionSettings)
    anchors = anchored.ccp_anchors if anchored else "embeddings"
    rho = config.find(RhoSettings)

    def of_length(length: int) -> losses.MetricLoss:
        loss = _base_loss(config, num_classes, length, anchors=anchors)
        if not miner or ccp:
            return loss
        drawn = config.part(PadsSettings).distribution() if miner == PADS else miner
        return losses.MinedLoss(loss, drawn, rho.p_switch if rho else 0.0, seed)

    lengths = config.prefix_lengths
    loss = losses.MatryoshkaLoss([*map(of_length, lengths)], lengths) if lengths else of_length(dim)
    memory = config.find(MemorySettings)
    if ccp:
        proxies = references.ProxyBank(num_classes, ccp.proxies_per_class, dim)
        waits = ccp.rules(config.monitor).waits
        loss = ccp_dml.ChanceConstrainedLoss(
            loss, proxies, in_batch_weight=ccp.ccp_in_batch_weight, warm_up_in_batch=waits
        )
    elif memory:
        loss = losses.CrossBatchMemoryLoss(
            loss,
            memory_size=memory.xbm_batches * config.batch_size,
            embedding_dim=dim,
            start_step=memory.xbm_start,
            fill_before_start=memory.xbm_fills_first,
            enqueue_first=memory.xbm_holds_batch,
            weight=memory.xbm_weight,
            terms=memory.xbm_terms,
        )
    return config.part(RegularizerSettings).around(loss, config.normalization, dim, seed)


def _task(
    config: RunSettings, name: str, num_classes: int, dim: int, seed: int, num_examples: int | None = None
) -> losses.MetricLoss:
    """Build the loss of another feature, one of `FEATURES`."""
    if name == DANCE:  # a contrast between the two views of each image in the batch
        dance = config.part(DanceSettings)
        return milbich_dml.DistanceAdaptedContrastLoss(
            dance.dance_queue_batches * config.batch_size,
            dim,
            temperature=dance.dance_temperature,
            weights=dance.dance_weights,
            normalization=config.normalization,
        )
    seed += _DRAWS[name]
    if name in _HEADS:
        return _first_loss(config, num_classes, dim, seed)
    if name == GROUPS:
        groups = config.part(GroupSettings)
        loss = _loss_of_tasks(config, groups.num_groups, dim)
        mined = losses.MinedLoss(loss, "distance_weighted", seed=seed)
        return milbich_dml.GroupLabelsLoss(mined, num_examples or groups.num_groups)
    loss = _loss_of_tasks(config, num_classes, dim)
    if name == INTRA:
        return losses.MinedLoss(loss, "intra_class", seed=seed)
    shared = config.part(SharedSettings)  # triplets across classes
    mined = losses.MinedLoss(loss, shared.miner or "inter_class", seed=seed)
    return milbich_dml.PermutedLabelsLoss(mined, seed) if shared.shared_triplets == "permuted" else mined


def _base_loss(config: RunSettings, num_classes: int, dim: int, **given: str) -> losses.MetricLoss:
    """Build the loss that the name begins with."""
    sizes = {"num_classes": num_classes, "embedding_dim": dim, "normalization": config.normalization}
    return LOSSES[parse_loss(config.loss).base](config.own("loss"), **sizes, **given)


def _loss_of_tasks(config: RunSettings, num_classes: int, dim: int) -> losses.MetricLoss:
    """Build the name's loss if it is one of triplets, else the dissertation's margin loss."""
    if LOSSES[parse_loss(config.loss).base].of_triplets:
        return _base_loss(config, num_classes, dim)
    return losses.MarginLoss(None, 0.2, 1.2, normalization=config.normalization)


def _of_superclasses(
    config: RunSettings, labels: np.ndarray, seed: int, superclasses: np.ndarray
) -> data.HierarchicalBatches:
    count = config.superclasses_per_batch
    each = config.classes_per_batch // count
    return data.HierarchicalBatches(
        np.stack([labels, superclasses], axis=1), count, each, config.samples_per_class, seed
    )


def _of_memory(criterion: str) -> Callable[..., data.MemoryBatches]:
    return lambda c, labels, seed: data.MemoryBatches(labels, c.classes_per_batch, c.samples_per_class, seed, criterion)


SAMPLERS: dict[str, Callable[..., data.ClassBalancedBatches | data.MPerClassBatches | data.RandomPairBatches]] = {
    "rounds": lambda c, labels, seed: data.ClassBalancedBatches(labels, c.classes_per_batch, c.samples_per_class, seed),
    "m_per_class": lambda c, labels, seed: data.ClassBalancedBatches(
        labels, c.classes_per_batch, c.samples_per_class, seed, interleaved=True, refills_blindly=True
    ),
    "spc": lambda c, labels, seed: data.MPerClassBatches(labels, c.classes_per_batch, c.samples_per_class, seed),
    "spc_r": lambda c, labels, seed: data.RandomPairBatches(labels, c.batch_size, seed),
    SUPERCLASSES: _of_superclasses,
    **{criterion: _of_memory(criterion) for criterion in CRITERIA},
}

SAMPLERS_OF_CLASSES = SAMPLERS.keys() - {"spc_r"}  # whose batches have --classes_per_batch different classes


def build_batches(config: RunSettings, labels: np.ndarray, seed: int, superclasses: np.ndarray | None = None):
    """Build the sampler of training batches for `labels` `[examples]`.

    With two views, each image is in its batch twice.

    Args:
        superclasses: `[examples]`, for their sampler alone.

    Raises:
        InvalidInput: the zero-shot prediction loss would find a class in both halves of a batch.
    """
    sampler = check_choice("--sampler", config.sampler, SAMPLERS)
    given = (superclasses,) if sampler == SUPERCLASSES else ()
    batches = SAMPLERS[sampler](config, labels, seed, *given)
    zero_shot = config.find(ZeroShotSettings)
    if zero_shot and zero_shot.zero_shot_weight:
        from gsp_dml.zero_shot_halves import check_halves

        check_halves(batches.class_places, zero_shot.zero_shot_halves)
    return data.TwoViews(batches) if num_views_of(config) == 2 else batches


def memory_of(batches) -> data.MemoryBatches | None:
    """Return the part of a sampler that chooses by embeddings, if any."""
    inner = batches.batches if isinstance(batches, data.TwoViews) else batches
    return inner if isinstance(inner, data.MemoryBatches) else None
