"""Milbich's dissertation, chapters 3 to 5: shared features, DiVA, PADS and baselines.

Regenerates: its tables 3.4 (`--id=milbich_3.4`), 3.6 (`--id=milbich_3.6`), 3.7 (`--id=milbich_3.7`), 3.8
    (`--id=milbich_3.8`), 3.9 (`--id=milbich_3.9`), 3.10 (`--id=milbich_3.10`), 3.11 (`--id=milbich_3.11`), 4.2
    (`--id=milbich_4.2`), 4.3 (`--id=milbich_4.3`), 4.4 (`--id=milbich_4.4`), 5.1 (`--id=milbich_5.1`), 5.3
    (`--id=milbich_5.3`), 5.4 (`--id=milbich_5.4`), 5.5 (`--id=milbich_5.5`), 5.6 (`--id=milbich_5.6`), 5.7
    (`--id=milbich_5.7`), 5.9 (`--id=milbich_5.9`), 5.10 (`--id=milbich_5.10`), 5.11 (`--id=milbich_5.11`), 5.12
    (`--id=milbich_5.12`) and 5.13 (`--id=milbich_5.13`) under the fair protocol: four folds, held-out classes, one
    total size for all rows of a table, intervals. Table 3.6 measures representations inside of finished runs. Table 3.7
    prints no strength of dropout and noise, table 5.4 no schedule: they are ours. Table 4.3 has printed decay and crop
    on photographs beside the recipe's. Table 5.3 has the last distribution, as the mean over all runs; no run keeps its
    policy for another. Of table 5.9 the rows that draw the watched images anew are left out.
Expected: the printed cells (R@1, which is P@1), beside ours in the table itself. The dissertation selects the best
    epoch on the test set, so no cell of the fair protocol is comparable; its protocol is `experiments.revisiting_eval`.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from common.files import read_arrays
from experiments.parts.datasets import traits_of
from experiments.plans.fair_table import FairRow, FairTable, MethodsTable
from experiments.plans.study import Cell, FinishedCells, Study, StudyOptions, finished_rows
from experiments.published.values import DISSERTATION
from experiments.rows.rows import Row
from experiments.rows.store import StudyRows
from experiments.studies.fair_tables import rows_of
from experiments.studies.generalization_gap import GeneralizationGapTable
from milbich_dml.distance_bins import SMALLEST
from milbich_dml.pads import FIXED, SAMPLING

# With rows in `fair_rows.csv`; of table 3.9's seven weights of decorrelation the first and the last are legible.
_TABLES = (
    *("3.4", "3.6", "3.7", "3.8", "3.9", "3.10", "3.11", "4.2", "4.3", "4.4"),
    *("5.1", "5.3", "5.4", "5.5", "5.6", "5.7", "5.9", "5.10", "5.11", "5.12", "5.13"),
)
_MODELS = {"margin+distance+gap": "Margin (discr. only)", "margin+distance+shared+gap": "Ours (T*)"}  # of table 3.6
_ADAPTED = ("margin+pads+gap", "triplet+pads+gap")  # in tables 5.1 and 5.3


def dissertation_tables() -> dict[str, Callable[[StudyOptions], Study]]:
    """Return the studies by their `--id`."""
    return {f"{DISSERTATION}{table}": functools.partial(_study, table) for table in _TABLES}


def _study(table: str, options: StudyOptions) -> Study:
    """Return a table's study."""
    title, name = f"Milbich's dissertation, table {table}, on {options.dataset}", f"{DISSERTATION}{table}"

    def make(rows: Sequence[FairRow]) -> FairTable:
        return FairTable(title, name, rows, options, chapter=5)

    of_photographs = traits_of(options.dataset).photographs
    rows = tuple(row for row in rows_of(name) if of_photographs or "crop" not in row.settings)
    if table == "3.6":
        return GeneralizationGapTable(title, name, rows, options, _MODELS)
    return FinalSamplingTable(make, rows, _ADAPTED) if table in ("5.1", "5.3") else make(rows)


VARIANT = "fixed at the last p"


class FinalSamplingTable(Study):
    """Table with a fixed-distribution control for each adapted row (miner `pads`).

    The control has the mean p of the last decisions of all of the adapted row's runs. If adapting beats it, the path
    matters and not only the end. Its runs are known once those of the adapted row are finished.
    """

    def __init__(
        self, make: Callable[[Sequence[FairRow]], MethodsTable], rows: Sequence[FairRow], adapted: Sequence[str]
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

    def recorded(self, finished: FinishedCells) -> StudyRows:
        """Return the rows of the table's finished cells."""
        return self._known(finished).recorded(finished)

    def render(self, finished: FinishedCells, folder: pathlib.Path, name: str) -> str:
        """Render the table."""
        return self._known(finished).render(finished, folder, name)

    def _known(self, finished: FinishedCells) -> MethodsTable:
        """Return the table with the controls whose distribution is known."""
        found = {}
        for label in self._adapted:
            cells = self._base.cells_of(label, finished)
            runs = finished_rows(cells, finished)
            if runs and len(runs) == len(cells):
                found[label] = last_probabilities(runs)
        return self._with(found) if found else self._base

    def _with(self, found: Mapping[str, np.ndarray]) -> MethodsTable:
        rows = []
        for row in self._rows:
            rows.append(row)
            if row.label in found:
                rows.append(_control(row, found[row.label]))
        return self._make(rows)


def last_probabilities(runs: Sequence[Row]) -> np.ndarray:
    """Return the mean over finished runs of p at the last decision, `[bins]`."""
    return np.mean([read_arrays(row.folder / SAMPLING)["probabilities"][-1] for row in runs], axis=0)


def _control(row: FairRow, probabilities: np.ndarray) -> FairRow:
    """Return `row` with a fixed distribution; without probabilities, a placeholder."""
    weights = np.maximum(probabilities / probabilities.max(initial=SMALLEST), SMALLEST)
    start = ",".join(f"{weight:.3g}" for weight in weights) or "all"
    settings = {**row.settings, "pads_estimator": FIXED, "pads_start": start}
    return dataclasses.replace(row, printed=None, settings=settings, variant=VARIANT)
