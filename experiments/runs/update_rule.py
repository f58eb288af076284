"""Update rule of a configuration: optimiser, schedule, and transformer block learning rates."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from common import backbones, training
from experiments.settings.config import ExperimentConfig
from experiments.settings.methods.gsp import PrototypeSettings
from experiments.settings.run_settings import ADAMW, COSINE

if TYPE_CHECKING:
    import tensorflow as tf

    from common.training.optimizers import GradientTransform

# Tables of single tokens and positions, which AdamW does not decay, like biases and normalisations.
_TOKENS = re.compile(r"(cls|class|mask|register)_tokens?\b|pos_embed|position_embedding")


def update_rule(config: ExperimentConfig, model: training.EmbeddingModel) -> training.ProxyRateOptimizer:
    """Make a fresh optimiser; refuse `layer_decay` of a network without blocks."""
    from common.training.devices import scaled_optimizer

    settings = {"beta_1": 0.9, "beta_2": config.beta_2}
    if config.optimizer == ADAMW:
        optimizer = training.FusedAdamW(config.learning_rate, weight_decay=config.weight_decay, **settings)
        optimizer.exclude_from_weight_decay(var_list=[w for w in model.trainable_variables if not _is_decayed(w)])
    else:
        optimizer = training.FusedAdam(config.learning_rate, **settings)
    cosine = config.learning_rate_schedule == COSINE
    return training.ProxyRateOptimizer(
        scaled_optimizer(optimizer, config.precision),
        config.proxy_multiplier,
        schedule=training.CosineSchedule(config.learning_rate, config.max_steps) if cosine else None,
        rates=_rates(config, model),
        ema_decay=config.ema_decay,
    )


def _rates(config: ExperimentConfig, model: training.EmbeddingModel) -> list[tuple[tf.Variable, float]]:
    """Return the weights that learn at another rate, with the factor of each."""
    pooling = config.find(PrototypeSettings)
    rates = [(model.head.pooling.prototypes, pooling.prototype_multiplier)] if pooling else []
    return rates if config.layer_decay is None else rates + backbones.block_rates(model.backbone, config.layer_decay)


def coupled_decay(config: ExperimentConfig, model: training.EmbeddingModel) -> list[GradientTransform]:
    """Return decay that is part of the gradient; none for AdamW."""
    return [] if config.optimizer == ADAMW else [training.CoupledWeightDecay(config.weight_decay, model)]


def _is_decayed(weight: tf.Variable) -> bool:
    return len(weight.shape) > 1 and not _TOKENS.search(getattr(weight, "path", weight.name))
