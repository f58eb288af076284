"""PADS in a run: the policy that watches held-out images, or a schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING

import milbich_dml
from common import losses, training
from common.data import Examples
from common.errors import check_given, invalid
from experiments.runs.evaluation_inputs import EvaluationInputs
from experiments.settings.config import ExperimentConfig
from experiments.settings.methods.pads import CURRICULA, PadsSettings

if TYPE_CHECKING:
    from experiments.runs.sampling_curriculum import Curriculum

SAMPLING = "sampling.npz"  # the record, in a run's folder


def teacher_of(
    model: training.EmbeddingModel,
    config: ExperimentConfig,
    inputs: EvaluationInputs,
    watched: Examples | None,
    seed: int,
) -> tuple[milbich_dml.PolicyAdaptedSampling | Curriculum, milbich_dml.SamplingRecord] | None:
    """Make PADS' sampling policy, or a schedule, and record; None without PADS or changes."""
    pads = config.find(PadsSettings)
    if pads is None:
        return None
    mined = check_given("MinedLoss", losses.loss_of_kind(model.metric_loss, losses.MinedLoss))
    examples, distribution = check_given("watched", watched), mined.miner
    if isinstance(distribution, str):
        raise invalid("miner", received=distribution, expected="a SamplingDistribution")
    record = milbich_dml.SamplingRecord(distribution, pads.pads_steps)
    if pads.pads_estimator in CURRICULA:
        from experiments.runs.sampling_curriculum import Curriculum  # loads Keras

        return Curriculum(pads, config.max_steps, record), record

    def measure() -> dict[str, float]:
        return milbich_dml.held_back_figures(model.embed(inputs.repeated(examples)), examples.labels)

    teacher = pads.teacher(distribution, measure, config.max_steps, seed, record.observe)
    return None if teacher is None else (teacher, record)
