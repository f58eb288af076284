"""CCP from a configuration: the loss around a pair loss, the proximal term, and the callback that alternates."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from ccp_dml import AlternatingProjections, ChanceConstrainedLoss, ClassPools, ProjectionRules, ProximalTerm
from common.data import Examples
from common.errors import check_given
from common.losses import MetricLoss
from common.references import ProxyBank
from common.training import EmbeddingModel
from experiments.settings.config import ExperimentConfig


def chance_constrained(loss: MetricLoss, config: ExperimentConfig, num_classes: int) -> ChanceConstrainedLoss:
    """`loss` over the proxies of all training classes."""
    proxies = ProxyBank(num_classes, check_given("proxies_per_class", config.proxies_per_class), config.embedding_dim)
    weight = check_given("ccp_in_batch_weight", config.ccp_in_batch_weight)
    return ChanceConstrainedLoss(loss, proxies, in_batch_weight=weight, warm_up_in_batch=_rules(config).waits)


def projection_parts(
    config: ExperimentConfig, model: EmbeddingModel, examples: Examples, augmentation, seed: int, on_problem_start=None
) -> tuple[ProximalTerm, AlternatingProjections]:
    """The gradient transform and the callback of a model whose loss is a `ChanceConstrainedLoss`.

    Args:
        config: a configuration with `method` ccp.
        model: with all weights made.
        examples: training examples, labelled from 0.
        augmentation: of the pools' images; the training augmentation.
        seed: of the pools.
        on_problem_start: as in `AlternatingProjections`, or None.
    """
    network = [*model.backbone.trainable_variables, *model.head.trainable_variables]
    term = ProximalTerm(network, check_given("ccp_lambda", config.ccp_lambda))
    pools = _pools(config, model.embed, examples, augmentation, seed)
    return term, AlternatingProjections(model.metric_loss, term, pools, _rules(config), on_problem_start)


def check_projections(config: ExperimentConfig, examples: Examples, augmentation) -> None:
    """Raises `InvalidInput` if the classes' pools or the rules cannot be as the configuration says; no model needed."""
    _pools(config, _embeds_nothing, examples, augmentation, config.seed)
    _rules(config)


def _pools(
    config: ExperimentConfig, embed: Callable[[Iterable], np.ndarray], examples: Examples, augmentation, seed: int
) -> ClassPools:
    pool_size = check_given("pool_size", config.pool_size)
    return ClassPools(
        embed, examples, augmentation, pool_size, check_given("proxies_per_class", config.proxies_per_class), seed
    )


def _embeds_nothing(inputs: Iterable) -> np.ndarray:
    raise NotImplementedError("These pools are made to check their settings: there is no network to embed with.")


def _rules(config: ExperimentConfig) -> ProjectionRules:
    return ProjectionRules(
        metric=config.monitor,
        patience=check_given("projection_patience", config.projection_patience),
        continue_from=check_given("ccp_continue_from", config.ccp_continue_from),
        first_centers=check_given("ccp_first_centers", config.ccp_first_centers),
        start_step=check_given("ccp_start", config.ccp_start),
        start_patience=config.ccp_start_patience or None,
        first_rate=config.ccp_first_lambda,
        evaluates_one_late=bool(config.ccp_reads_late),
        max_problems=config.ccp_max_problems,
        goes_back=bool(config.ccp_goes_back),
        max_failures=config.ccp_max_failures or None,
    )
