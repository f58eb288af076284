"""Settings of CCP; they build its loss, proximal term and alternating callback."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

import numpy as np

import ccp_dml
from ccp_dml.projection_rules import FIRST_CENTERS
from common import data, losses, training
from common.errors import InvalidInput, check_given
from common.parameters import NOT_NEGATIVE, POSITIVE
from experiments.parts.setting import Settings, setting


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProjectionSettings(Settings, title="Alternating projections (--method=ccp)"):
    """`--method=ccp`."""

    proxies_per_class: int = setting("ccp: proxies per class", within=POSITIVE)
    pool_size: int = setting("ccp: images per class among which the next proxies are chosen", within=POSITIVE)
    ccp_lambda: float = setting("ccp: weight of the proximal term", within=NOT_NEGATIVE)
    ccp_first_lambda: float = setting("ccp: that weight in the first problem", within=NOT_NEGATIVE)
    projection_patience: int = setting("ccp: validations without improvement that end a problem", within=POSITIVE)
    ccp_in_batch_weight: float = setting(
        "ccp: weight of the ordinary in-batch loss beside the proxies'", within=NOT_NEGATIVE
    )
    ccp_start: int = setting(
        "ccp: update steps with the in-batch loss alone before the first problem", within=NOT_NEGATIVE
    )
    ccp_start_patience: int | None = setting(
        "ccp: the first problem begins, from the in-batch loss's best weights, after so many validations without "
        "improvement, and not before `ccp_start`; 0: at `ccp_start`",
        None,
        within=NOT_NEGATIVE,
    )
    ccp_goes_back: bool = setting(
        "ccp: after a problem that ends below the one before, the next begins from that one's best again (default: "
        "the recipe's)",
        False,
    )
    ccp_max_failures: int | None = setting(
        "ccp: no problem begins after so many in a row that went back; 0: no limit", None, within=NOT_NEGATIVE
    )
    ccp_continue_from: str = setting(
        "ccp: a problem begins from the `best` or the `last` weights", choices=("best", "last")
    )
    ccp_first_centers: str = setting(
        "ccp: first proxies seeded by a `sample` per class or by the `origin`, or left `random`", choices=FIRST_CENTERS
    )
    ccp_reads_late: bool = setting("ccp: each validation is read one validation late")
    ccp_keeps_problems: bool = setting("ccp: keep the test embeddings of each problem's beginning", False)
    ccp_max_problems: int | None = setting(
        "ccp: most problems; 1 keeps the first proxies (default: no limit)", None, within=POSITIVE
    )

    ccp_problem_steps: int | None = setting(
        "ccp: a problem ends after so many update steps, whatever the validation; for training on all classes",
        None,
        within=POSITIVE,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ccp_max_failures and not self.ccp_goes_back:
            raise InvalidInput(
                f"--ccp_max_failures={self.ccp_max_failures} counts problems that went back, and without "
                "--ccp_goes_back none does: give --ccp_goes_back, too, or --ccp_max_failures=0."
            )

    def training_parts(
        self,
        model: training.EmbeddingModel,
        pools: ccp_dml.ClassPools,
        metric: str,
        on_problem_start: Callable | None = None,
    ) -> tuple[ccp_dml.ProximalTerm, ccp_dml.AlternatingProjections]:
        """Build the gradient transform and the callback for a `ChanceConstrainedLoss`.

        The model's loss is or contains that loss, and all weights have been created.
        """
        network = [*model.backbone.trainable_variables, *model.head.trainable_variables]
        term = ccp_dml.ProximalTerm(network, self.ccp_lambda)
        rules = self.rules(metric)
        loss = check_given(
            "ChanceConstrainedLoss", losses.loss_of_kind(model.metric_loss, ccp_dml.ChanceConstrainedLoss)
        )
        return term, ccp_dml.AlternatingProjections(loss, term, pools, rules, on_problem_start)

    def check(self, examples: data.Examples, augmentation: data.ImageTransform, seed: int, metric: str) -> None:
        """Refuse settings with impossible pools or rules, without needing a model."""
        self.pools(_embeds_nothing, examples, augmentation, seed)
        self.rules(metric)

    def pools(
        self,
        embed: Callable[[Iterable], np.ndarray],
        examples: data.Examples,
        augmentation: data.ImageTransform,
        seed: int,
    ) -> ccp_dml.ClassPools:
        """Build the pools of candidate images for the next proxies."""
        return ccp_dml.ClassPools(embed, examples, augmentation, self.pool_size, self.proxies_per_class, seed)

    def rules(self, metric: str) -> ccp_dml.ProjectionRules:
        """Return the rules that begin and end problems by a validation metric."""
        return ccp_dml.ProjectionRules(
            metric=metric,
            patience=self.projection_patience,
            continue_from=self.ccp_continue_from,
            first_centers=self.ccp_first_centers,
            start_step=self.ccp_start,
            start_patience=self.ccp_start_patience or None,
            first_rate=self.ccp_first_lambda,
            evaluates_one_late=self.ccp_reads_late,
            max_problems=self.ccp_max_problems,
            goes_back=self.ccp_goes_back,
            max_failures=self.ccp_max_failures or None,
            problem_steps=self.ccp_problem_steps,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnchorSettings(Settings, title=ProjectionSettings.title):
    """Settings of one-sided pair losses under CCP."""

    ccp_anchors: str = setting(
        "ccp, losses with anchors: these are the samples (`embeddings`) or the proxies (`references`)",
        choices=("embeddings", "references"),
    )


def _embeds_nothing(inputs: Iterable) -> np.ndarray:
    raise NotImplementedError("These pools are made to check their settings: there is no network to embed with.")
