"""Table with a control for PADS: its runs' final distribution, from the start."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from common.files import read_arrays
from common.miners.distance_bins import SMALLEST
from experiments.plans.fair_table import FairRow, MethodsTable
from experiments.plans.study import Cell, FinishedCells, RecordedMethod, Study, finished_units
from experiments.reports import UnitRun
from experiments.runs.sampling_teacher import SAMPLING
from experiments.settings.methods.pads import FIXED

VARIANT = "fixed at the last p"


class FinalSamplingTable(Study):
    """Table with a fixed-distribution control for each adapted row (miner `pads`).

    The control has the mean p of the last decisions of all of the adapted row's runs. If adapting beats it, the path
    matters and not only the end. Its runs are known once those of the adapted row are finished.
    """

    def __init__(
        self,
        make: Callable[[Sequence[FairRow]], MethodsTable],
        rows: Sequence[FairRow],
        adapted: Sequence[str],
    ) -> None:
        self._make, self._rows = make, tuple(rows)
        self._base = make(rows)
        self._adapted = {row.label: row for row in rows if row.label in adapted and row.label in self._base.rows}
        complete = self._with({label: np.ones(0) for label in self._adapted})
        self.title, self.protocol, self.notes = complete.title, complete.protocol, complete.notes
        self.num_cells, self.rows = complete.num_cells, complete.rows

    def cells(self, finished: FinishedCells) -> list[Cell]:
        """Return the table's cells, then those of known controls."""
        return self._known(finished).cells(finished)

    def recorded(self, finished: FinishedCells) -> list[RecordedMethod]:
        """Return the table's recorded methods."""
        return self._known(finished).recorded(finished)

    def render(self, finished: FinishedCells, folder: pathlib.Path, name: str) -> str:
        """Render the table."""
        return self._known(finished).render(finished, folder, name)

    def _known(self, finished: FinishedCells) -> MethodsTable:
        """Return the table with the controls whose distribution is known."""
        found = {}
        for label in self._adapted:
            cells = self._base.cells_of(label, finished)
            units = finished_units(cells, finished)
            if units and len(units) == len(cells):
                found[label] = last_probabilities(units)
        return self._with(found) if found else self._base

    def _with(self, found: Mapping[str, np.ndarray]) -> MethodsTable:
        rows = []
        for row in self._rows:
            rows.append(row)
            if row.label in found:
                rows.append(_control(row, found[row.label]))
        return self._make(rows)


def last_probabilities(units: Sequence[UnitRun]) -> np.ndarray:
    """Return the mean over finished runs of p at the last decision, `[bins]`."""
    return np.mean([read_arrays(unit.path / SAMPLING)["probabilities"][-1] for unit in units], axis=0)


def _control(row: FairRow, probabilities: np.ndarray) -> FairRow:
    """Return `row` with a fixed distribution; without probabilities, a placeholder."""
    weights = np.maximum(probabilities / probabilities.max(initial=SMALLEST), SMALLEST)
    start = ",".join(f"{weight:.3g}" for weight in weights) or "all"
    settings = {**row.settings, "pads_estimator": FIXED, "pads_start": start}
    return dataclasses.replace(row, printed=None, settings=settings, variant=VARIANT)
