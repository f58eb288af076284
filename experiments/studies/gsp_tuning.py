"""What the studies of GSP's hyper-parameters (thesis section 5.3) share: tuning splits, and how their losses begin."""

from __future__ import annotations

from experiments.config import ExperimentConfig
from experiments.recipes import LARGE_DATASETS, PHOTOGRAPHS
from experiments.studies.study import StudyOptions


def tuning_configuration(options: StudyOptions, loss: str, pooling: str = "gsp", **varied) -> ExperimentConfig:
    """A configuration on the tuning splits.

    Reference: thesis section 5.3.4.1: five splits of the training classes, four fifths train and one validates;
    patience 10 (CUB, Cars) or 7 (SOP, In-shop).

    Args:
        options: of the study.
        loss: as in `ExperimentConfig`.
        pooling: as in `ExperimentConfig`.
        **varied: what the study varies.

    Raises:
        InvalidInput: `--pooling` was given; the study has its own.
    """
    settings = {"chapter": 5, "num_folds": 5}
    if options.budget == "full" and options.dataset in PHOTOGRAPHS:
        settings["patience"] = 7 if options.dataset in LARGE_DATASETS else 10
    return options.with_pooling(pooling).configuration(loss, settings=settings, **varied)


def tuning_notes(options: StudyOptions) -> tuple[str, ...]:
    """What the figures are, and what a small budget leaves out."""
    note = "Figures are the best validation on the held-out fifth of the training classes, not on the test set."
    if options.budget == "full":
        return (note,)
    return (note, f"Budget {options.budget}: one split, a coarse grid. It shows a direction, not the thesis' figures.")
