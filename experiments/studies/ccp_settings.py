"""Settings of the studies of CCP (thesis section 3.3): ablation splits, CPU lengths."""

from __future__ import annotations

from collections.abc import Mapping

from experiments.parts.datasets import traits_of
from experiments.plans.study import StudyOptions

# Problems must end within minutes: a validation each 25 steps, and a problem ends at the first one that is no better.
_DEMO = {"max_steps": 1000, "steps_per_evaluation": 25, "patience": 20, "projection_patience": 1, "xbm_start": 200}
NUM_BLOCKS = 3


def ccp_settings(options: StudyOptions, *, ablation: bool = False) -> dict:
    """Return the studies' own values of configuration fields.

    Reference: thesis section 3.3.2.1: ablations use three blocks of the training classes; a single model trains on two
    and validates on one, with patience 40.
    """
    settings = {"num_folds": NUM_BLOCKS} if ablation else {}
    if ablation and options.budget == "full" and traits_of(options.dataset).photographs:
        settings["patience"] = 40
    return {**settings, **(_DEMO if options.budget == "demo" else {})}


def row_settings(loss: str, dataset: str) -> dict:
    """Return a row's settings: SoftTriple on SOP and In-shop has one centre per class."""
    return {"centers_per_class": 1} if loss == "softtriple" and traits_of(dataset).large else {}


def ablation_protocol(options: StudyOptions) -> str:
    """Describe the runs of an ablation's configurations."""
    return options.one_split_protocol(NUM_BLOCKS, 1, "3.3.2.1")


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
