"""Tuning split of the studies of GSP's hyper-parameters (thesis section 5.3.4)."""

from __future__ import annotations

from experiments.plans.study import StudyOptions
from experiments.settings.config import ExperimentConfig
from experiments.settings.thesis_values import LARGE_DATASETS, PHOTOGRAPHS

NUM_BLOCKS, THESIS_REPEATS = 5, 3


def tuning_configuration(options: StudyOptions, loss: str, pooling: str = "gsp", **varied) -> ExperimentConfig:
    """Return a configuration on the tuning split.

    Reference: thesis section 5.3.4.1: five blocks of the training classes; a single model trains on four and validates
    on one. The average of three repeats is reported; patience is 10 (CUB, Cars) or 7 (SOP, In-shop).

    Args:
        options: of the study.
        loss: as in `ExperimentConfig`.
        pooling: as in `ExperimentConfig`.
        **varied: fields that the study varies.

    Raises:
        InvalidInput: `--pooling` was given; the study has its own.
    """
    settings = {"chapter": 5, "num_folds": NUM_BLOCKS}
    if options.budget == "full" and options.dataset in PHOTOGRAPHS:
        settings["patience"] = 7 if options.dataset in LARGE_DATASETS else 10
    return options.with_pooling(pooling).configuration(loss, settings=settings, **varied)


def tuning_protocol(options: StudyOptions) -> str:
    """Describe the runs of each configuration."""
    return options.one_split_protocol(NUM_BLOCKS, THESIS_REPEATS, "5.3.4.1")


def tuning_notes(options: StudyOptions) -> tuple[str, ...]:
    """Describe the figures and the reductions of a small budget."""
    note = "Figures are the best validation on the held-out fifth of the training classes, not on the test set."
    if options.budget == "full":
        return (note,)
    return (
        note,
        f"Budget {options.budget}: short runs, a coarse grid. It shows a direction, not the thesis' figures.",
    )
