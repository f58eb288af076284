"""Table with P@1 of training and test images below it, by representation."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping

import numpy as np

from common.errors import check_given
from common.progress import progress_bar
from experiments.plans.fair_table import FairTable
from experiments.plans.study import Cell, FinishedCells, RecordedMethod, Study, finished_units, write_table
from experiments.published.values import dissertation_value
from experiments.reports import PlainTable, UnitRun
from experiments.settings.loss_building import DISCRIMINATIVE
from experiments.settings.method_names import SHARED
from experiments.studies.representations import FEATURES, REDRAWN, generalization_of
from experiments.studies.tuned_table import TunedTable

_PRINTED = {
    DISCRIMINATIVE: "phi",
    SHARED: "phi*",
    REDRAWN: "phi(random re-init)",
    FEATURES: "f (backbone features)",
}
_NOTES = (
    "Mean over the finished runs. P@1 of the images that a run learnt from, each searched for among the others, and of "
    "the test set: other classes, and another number of images. The gap is test minus training.",
    f"`{FEATURES}`: the backbone's average features. `{REDRAWN}`: these behind a linear head that was never trained.",
)


class GeneralizationGapTable(Study):
    """Table of runs, with P@1 of their representations on training and test images.

    Args:
        base: the table; no other runs are needed.
        table: its name among the published ones.
        models: printed names of its rows' models, by label.
    """

    def __init__(self, base: FairTable | TunedTable, table: str, models: Mapping[str, str]) -> None:
        self._base, self._table, self._models = base, table, models
        self.title, self.protocol, self.notes = base.title, base.protocol, base.notes
        self.num_cells, self.rows = base.num_cells, base.rows

    def cells(self, finished: FinishedCells) -> list[Cell]:
        """Return the table's cells."""
        return self._base.cells(finished)

    def recorded(self, finished: FinishedCells) -> list[RecordedMethod]:
        """Return the table's recorded methods."""
        return self._base.recorded(finished)

    def render(self, finished: FinishedCells, folder: pathlib.Path, name: str) -> str:
        """Write the table and its runs' representations (`<name>_gap.md`, `.csv`)."""
        text = self._base.render(finished, folder, name)
        lines = []
        for label in self.rows:
            units = finished_units(self._base.cells_of(label, finished), finished)
            lines += self._lines(label, units, finished)
        if not lines:
            return text
        header = ("method", "representation", "runs", "dim", "training P@1", "test P@1", "gap", "printed gap (R@1)")
        gaps = PlainTable(f"Generalisation gap: {self.title}", header, lines, _NOTES)
        return f"{text}\n{write_table(gaps, folder, f'{name}_gap')}"

    def _lines(self, label: str, units: list[UnitRun], finished: FinishedCells) -> list[list[str]]:
        if not units:
            return []
        dataset = check_given("dataset", finished.dataset)
        shown = progress_bar(units, desc=f"representations of {label}")
        found = [generalization_of(unit, dataset, finished.cache_dir) for unit in shown]
        lines = []
        for name in found[0]:
            training, test = (100 * np.mean([each[name][side] for each in found]) for side in ("training", "test"))
            cell = dissertation_value(self._table, dataset.name, self._printed(label, name), "generalization_gap")
            printed = "-" if cell is None else f"{cell.value:+.1f}"
            figures = [f"{training:.2f}", f"{test:.2f}", f"{test - training:+.2f}", printed]
            lines.append([label, name, str(len(found)), str(found[0][name]["dim"]), *figures])
        return lines

    def _printed(self, label: str, name: str) -> str:
        return f"{self._models.get(label)} / {_PRINTED.get(name)}"
