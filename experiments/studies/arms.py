"""Arms from converged weights: a loss that goes on, CCP, CCP without a part.

Regenerates: nothing printed: the thesis' claims on CCP (table 3.1, figures 3.5 and 3.7) in the thesis' own order: train
    to convergence, then project, then alternate. docs/results/plan_2.md was written before the first run.
Expected: the signs of the thesis. Give the losses' own settings by `--recipe=FILE`, which `dml tune` writes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from experiments.plans.fair_table import FairRow
from experiments.plans.study import Cell, FinishedCells, Study, StudyOptions
from experiments.plans.study_runs import NothingFinished, StudyRuns
from experiments.recipes.small_images import EMOJI
from experiments.recipes.tuned_recipe import FILE_ENDING, TunedRecipe, named_recipe
from experiments.studies.planned import Claim, planned_settings
from experiments.studies.tuned_table import TunedRow, TunedTable

LOSSES = ("c2", "ms")
START = "start"  # the variant whose best weights begin all others
_CCP: dict[str, object] = {
    "ccp_start": 0,
    "ccp_goes_back": True,
    "ccp_max_failures": 2,
    "ccp_in_batch_weight": 0.1,  # alone, proxies left no pair of classes inside a small negative margin
}
_WITHOUT_A_PART: dict[str, dict[str, object]] = {  # of CCP
    "one problem": {"ccp_max_problems": 1},
    "random members": {"proxies_per_class": 4, "pool_size": 4},  # k-center takes all of a pool
    "without the proximal term": {"ccp_lambda": 0.0, "ccp_first_lambda": 0.0},
}
_LENGTHS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {  # by budget: of the start, of the arms
    "full": (
        {"max_steps": 3000, "steps_per_evaluation": 50, "plateau_patience": 4, "patience": 12},
        {"max_steps": 1500, "steps_per_evaluation": 50, "patience": 10},
    ),
    "demo": ({"max_steps": 400, "steps_per_evaluation": 50, "patience": 2},) * 2,
    "smoke": ({},) * 2,
}
_FROM_SCRATCH = 8000  # most steps of a start without pretrained weights; an arm has half of them
_PARTS = ("alternation", "k-center", "the proximal term")  # each missing in a row of `_WITHOUT_A_PART`
CLAIMS = tuple(
    Claim(f"{text} with {name}, converged", f"{loss}+ccp+gap", f"{loss}+{baseline}", None, chapter, True)
    for name, loss in (("C2", "c2"), ("multi-similarity", "ms"))
    for text, baseline, chapter in (
        ("CCP", "gap", 3),
        *((part, f"ccp+gap, {without}", None) for part, without in zip(_PARTS, _WITHOUT_A_PART)),
    )
)
_PACES = (1 / 3, 1 / 9)  # of the tuned learning rate, which a full start has halved several times


class Arms(TunedTable):
    """Rows of each loss: its start, and arms, known once that has ended."""

    def __init__(self, options: StudyOptions, starts: dict[str, str] | None = None):
        """Make the study.

        `starts` has the folder of each loss's start; None until `prepared` knows the data.
        """
        tuned = TunedRecipe.read(options.recipe).methods if options.recipe.endswith(FILE_ENDING) else {}
        self._options = options
        of_start, of_arms = _LENGTHS[options.budget]
        if options.budget == "full" and options.overrides.get("weights") == "none":
            of_start, of_arms = {**of_start, "max_steps": _FROM_SCRATCH}, {**of_arms, "max_steps": _FROM_SCRATCH // 2}
        rows = []
        for loss in options.losses or LOSSES:
            own = {name: value for name, value in tuned.get(f"{loss}+gap", {}).items() if name not in options.overrides}
            begins = {"start_from": starts[loss] if starts else START}
            rows.append(TunedRow(FairRow(f"{loss}+gap", None, None, {**own, **of_start}, START), [{}]))
            rows += _arms(loss, {**own, **of_arms, **begins}, own.get("learning_rate", EMOJI["learning_rate"]))
        title = f"Arms from converged weights on {options.dataset}"
        named = dataclasses.replace(options, recipe=named_recipe(options.recipe), losses=())
        super().__init__(title, rows, named, planned_settings(options))

    def prepared(self, runs: StudyRuns | NothingFinished, *, train: bool) -> Study:
        """Return the study with the folders of the starts' runs."""
        if isinstance(runs, NothingFinished):
            return self
        losses = self._options.losses or LOSSES
        cells = {loss: self._cells[f"{loss}+gap, {START}"][0][0] for loss in losses}
        return Arms(self._options, {loss: str(runs.unit_dir(cell.config, 0, 0).parent) for loss, cell in cells.items()})

    def cells(self, finished: FinishedCells) -> list[Cell]:
        """Return the starts, and the arms of losses whose starts have ended."""
        losses = self._options.losses or LOSSES
        starts = {loss: self._cells[f"{loss}+gap, {START}"][0] for loss in losses}
        ended = [loss for loss in losses if self.chosen(f"{loss}+gap, {START}", finished) is not None]
        known = super().cells(finished)
        return [cell for cell in known if cell in starts[cell.config.loss] or cell.config.loss in ended]


def _arms(loss: str, settings: dict[str, object], rate: Any) -> Iterator[TunedRow]:
    alone, ccp = f"{loss}+gap", f"{loss}+ccp+gap"
    rates = [{"learning_rate": rate * pace} for pace in _PACES]
    fixed = {name: value for name, value in settings.items() if name != "learning_rate"}
    yield TunedRow(FairRow(alone, None, f"{alone}, {START}", fixed), rates)
    yield TunedRow(FairRow(ccp, None, alone, {**fixed, **_CCP}), rates)
    for variant, part in _WITHOUT_A_PART.items():
        yield TunedRow(FairRow(ccp, None, ccp, {**fixed, **_CCP, **part}, variant), rates, ccp)
