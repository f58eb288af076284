"""Update rule of a configuration: optimiser, schedules, rates and transforms of gradients."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from common import backbones, training
from experiments.settings.config import ExperimentConfig
from experiments.settings.run_settings import ADAMW, COSINE

if TYPE_CHECKING:
    import tensorflow as tf

    from common.records import ResumableCallback
    from common.training.method import Attached
    from common.training.optimizers import GradientTransform

# Tables of single tokens and positions, which AdamW does not decay, like biases and normalisations.
_TOKENS = re.compile(r"(cls|class|mask|register)_tokens?\b|pos_embed|position_embedding")


def update_rule(
    config: ExperimentConfig, model: training.EmbeddingModel, rates: Sequence[tuple[tf.Variable, float]] = ()
) -> training.ProxyRateOptimizer:
    """Make a fresh optimiser; refuse `layer_decay` of a network without blocks.

    Args:
        rates: variables that learn at another rate, with its factor.
    """
    from common.training.devices import scaled_optimizer

    settings = {"beta_1": 0.9, "beta_2": config.beta_2}
    if config.optimizer == ADAMW:
        optimizer = training.FusedAdamW(config.learning_rate, weight_decay=config.weight_decay, **settings)
        optimizer.exclude_from_weight_decay(var_list=[w for w in model.trainable_variables if not _is_decayed(w)])
    else:
        optimizer = training.FusedAdam(config.learning_rate, **settings)
    cosine = config.learning_rate_schedule == COSINE
    of_blocks = [] if config.layer_decay is None else backbones.block_rates(model.backbone, config.layer_decay)
    return training.ProxyRateOptimizer(
        scaled_optimizer(optimizer, config.precision),
        config.proxy_multiplier,
        schedule=training.CosineSchedule(config.learning_rate, config.max_steps) if cosine else None,
        rates=[*rates, *of_blocks],
        ema_decay=config.ema_decay,
    )


def transforms_of(
    config: ExperimentConfig, model: training.EmbeddingModel, attached: Sequence[Attached] = ()
) -> list[GradientTransform]:
    """Return the ordered transforms of gradients: the methods', decay (except for AdamW), clipping."""
    transforms = [transform for each in attached for transform in each.transforms]
    if config.optimizer != ADAMW:
        transforms.append(training.CoupledWeightDecay(config.weight_decay, model))
    if config.clip_norm:
        transforms.append(training.GradientClipping(config.clip_norm, config.clip_value))
    return transforms


def rate_callbacks(config: ExperimentConfig) -> list[ResumableCallback]:
    """Return the callbacks of the learning rate."""
    callbacks: list[ResumableCallback] = []
    if config.learning_rate_schedule == COSINE:
        callbacks.append(training.LearningRateRecord())
    if config.rate_drop_step is not None and config.rate_drop_factor is not None:
        callbacks.append(training.StepSchedule([config.rate_drop_step], config.rate_drop_factor))
    return callbacks


def schedule_of(
    config: ExperimentConfig, batches_per_epoch: int, checkpoint_seconds: float
) -> training.TrainingSchedule:
    """Return when a run validates, stops and keeps a checkpoint."""
    return training.TrainingSchedule(
        max_steps=config.max_steps,
        steps_per_evaluation=config.steps_per_evaluation,
        patience=config.patience,
        warm_up_steps=config.warm_up_steps or config.warm_up_epochs * batches_per_epoch,
        warm_up_trains_all=config.warm_up_trains_all,
        plateau_patience=config.plateau_patience,
        monitor=config.monitor,
        selection_start=config.selection_start or 0,
        checkpoint_seconds=checkpoint_seconds,
    )


def _is_decayed(weight: tf.Variable) -> bool:
    return len(weight.shape) > 1 and not _TOKENS.search(getattr(weight, "path", weight.name))
