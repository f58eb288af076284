"""CCP from a configuration: the loss around a pair loss, the proximal term, and the callback that alternates."""

from __future__ import annotations

from ccp_dml import AlternatingProjections, ChanceConstrainedLoss, ClassPools, ProjectionRules, ProximalTerm
from common.data import Examples
from common.losses import MetricLoss
from common.references import ProxyBank
from common.training import EmbeddingModel
from experiments.settings.config import ExperimentConfig


def chance_constrained(loss: MetricLoss, config: ExperimentConfig, num_classes: int) -> ChanceConstrainedLoss:
    """`loss` over the proxies of all training classes."""
    proxies = ProxyBank(num_classes, config.proxies_per_class, config.embedding_dim)
    return ChanceConstrainedLoss(
        loss, proxies, in_batch_weight=config.ccp_in_batch_weight, starts_in_batch=_rules(config).waits
    )


def projection_parts(
    config: ExperimentConfig, model: EmbeddingModel, examples: Examples, augmentation, seed: int, observe=None
) -> tuple[ProximalTerm, AlternatingProjections]:
    """The gradient transform and the callback of a model whose loss is a `ChanceConstrainedLoss`.

    Args:
        config: a configuration with `method` ccp.
        model: with all weights made.
        examples: training examples, labelled from 0.
        augmentation: of the pools' images; the training augmentation.
        seed: of the pools.
        observe: as in `AlternatingProjections`, or None.
    """
    network = [*model.backbone.trainable_variables, *model.head.trainable_variables]
    term = ProximalTerm(network, config.ccp_lambda)
    pools = ClassPools(model.embed, examples, augmentation, config.pool_size, config.proxies_per_class, seed)
    return term, AlternatingProjections(model.metric_loss, term, pools, _rules(config), observe)


def check_projections(config: ExperimentConfig, examples: Examples, augmentation) -> None:
    """Raises `InvalidInput` if the classes' pools or the rules cannot be as the configuration says; no model needed."""
    ClassPools(None, examples, augmentation, config.pool_size, config.proxies_per_class, config.seed)
    _rules(config)


def _rules(config: ExperimentConfig) -> ProjectionRules:
    return ProjectionRules(
        metric=config.monitor,
        patience=config.projection_patience,
        continue_from=config.ccp_continue_from,
        first_centers=config.ccp_first_centers,
        start_step=config.ccp_start,
        start_patience=config.ccp_start_patience or None,
        first_rate=config.ccp_first_lambda,
        reads_late=config.ccp_reads_late,
        max_problems=config.ccp_max_problems,
        goes_back=bool(config.ccp_goes_back),
        max_failures=config.ccp_max_failures or None,
    )
