"""MIC's image groups in a run, and their relation to classes."""

from __future__ import annotations

import numpy as np

from common import losses, training
from common.data import Examples
from common.errors import check_given
from experiments.runs.evaluation_inputs import EvaluationInputs
from experiments.settings.config import ExperimentConfig
from experiments.settings.loss_building import feature_slices
from experiments.settings.method_names import GROUPS
from experiments.settings.methods.features import BY_FEATURES, BY_SLICE, STANDARDIZED, GroupSettings

_FIRST = {STANDARDIZED: "standardized", BY_FEATURES: "none", BY_SLICE: "centred"}  # treatment of features


def regrouping_of(
    model: training.EmbeddingModel,
    config: ExperimentConfig,
    inputs: EvaluationInputs,
    examples: Examples,
    batches_per_epoch: int,
    seed: int,
) -> list[training.Regrouping]:
    """Group an untrained model's images; return the callback that regroups, if any."""
    groups = config.find(GroupSettings)
    if groups is None:
        return []
    loss = check_given("GroupLabelsLoss", losses.loss_of_kind(model.metric_loss, losses.GroupLabelsLoss))
    columns = feature_slices(config)[GROUPS]

    def vectors(number: int) -> np.ndarray:
        """Return a vector of each training image, for a round."""
        if groups.group_by == BY_SLICE and number:
            return model.embed(inputs(examples))[:, columns]
        features = model.embed(inputs(examples), output="features")
        return training.without_classes(features, examples.labels, _FIRST[groups.group_by])

    regrouping = training.Regrouping(loss, vectors, groups.num_groups, groups.group_epochs * batches_per_epoch, seed)
    regrouping.group()
    return [regrouping]


def group_figures(model: training.EmbeddingModel, labels: np.ndarray) -> dict[str, float]:
    """Return the number of image groups and their mean number of classes."""
    loss = check_given("GroupLabelsLoss", losses.loss_of_kind(model.metric_loss, losses.GroupLabelsLoss))
    groups = np.array(loss.groups)
    return {"groups": len(np.unique(groups)), "classes_per_group": training.classes_per_group(groups, labels)}
