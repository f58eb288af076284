"""What studies of a chapter share: chapter 3's lengths and ablation splits, chapter 5's tuning splits."""

from __future__ import annotations

from collections.abc import Mapping

from experiments.parts.datasets import traits_of
from experiments.plans.study import StudyOptions

# Problems must end within minutes: a validation each 25 steps, and a problem ends at the first one that is no better.
_DEMO = {"max_steps": 1000, "steps_per_evaluation": 25, "patience": 20, "projection_patience": 1, "xbm_start": 200}
_ABLATION_BLOCKS = 3


def ccp_settings(options: StudyOptions, *, ablation: bool = False) -> dict:
    """Return the studies' own values of configuration fields.

    Reference: thesis section 3.3.2.1: ablations use three blocks of the training classes; a single model trains on two
    and validates on one, with patience 40.
    """
    settings = {"num_folds": _ABLATION_BLOCKS} if ablation else {}
    if ablation and options.budget == "full" and traits_of(options.dataset).photographs:
        settings["patience"] = 40
    return {**settings, **(_DEMO if options.budget == "demo" else {})}


def row_settings(loss: str, dataset: str) -> dict:
    """Return a row's settings: SoftTriple on SOP and In-shop has one centre per class."""
    return {"centers_per_class": 1} if loss == "softtriple" and traits_of(dataset).large else {}


def ablation_protocol(options: StudyOptions) -> str:
    """Describe the runs of an ablation's configurations."""
    return options.one_split_protocol(_ABLATION_BLOCKS, 1, "3.3.2.1")


def budget_notes(options: StudyOptions, settings: Mapping[str, object]) -> tuple[str, ...]:
    """Describe a small budget's reductions; `settings` from `ccp_settings`."""
    reductions = "one fold, a coarse grid"
    if options.budget == "demo":
        values = {**settings, **options.overrides}
        reductions += (
            f", {values['max_steps']:,} update steps at most, a validation each {values['steps_per_evaluation']}, and "
            f"a projection problem ends after {values['projection_patience']} without improvement (thesis: 3)"
        )
    return options.budget_notes(reductions)


_TUNING_BLOCKS, _TUNING_REPEATS = 5, 3


def tuning_settings(options: StudyOptions) -> dict:
    """Return the values of configuration fields on the tuning split.

    Reference: thesis section 5.3.4.1: five blocks of the training classes; a single model trains on four and validates
    on one. The average of three repeats is reported; patience is 10 (CUB, Cars) or 7 (SOP, In-shop).
    """
    settings = {"chapter": 5, "num_folds": _TUNING_BLOCKS}
    if options.budget == "full" and traits_of(options.dataset).photographs:
        settings["patience"] = 7 if traits_of(options.dataset).large else 10
    return settings


def tuning_protocol(options: StudyOptions) -> str:
    """Describe the runs of each configuration."""
    return options.one_split_protocol(_TUNING_BLOCKS, _TUNING_REPEATS, "5.3.4.1")


def tuning_notes(options: StudyOptions) -> tuple[str, ...]:
    """Describe the figures and the reductions of a small budget."""
    note = "Figures are the best validation on the held-out fifth of the training classes, not on the test set."
    return note, *options.budget_notes("short runs, a coarse grid")
