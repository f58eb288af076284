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
Command: python -m experiments.table --id=milbich_3.8 --dataset=glyphs --budget=demo --run
Expected: the printed cells (R@1, which is P@1), beside ours in the table itself. The dissertation selects the best
    epoch on the test set, so no cell of the fair protocol is comparable; its protocol is `experiments.revisiting_eval`.
Cost: 24 (milbich_4.3) to 264 runs (milbich_5.10), whose list has their cost; `--budget=demo` on glyphs one to three
    minutes for a run; `--budget=smoke` seconds.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from experiments.plans.fair_table import FairRow, FairTable
from experiments.plans.study import Study, StudyOptions
from experiments.published.values import DISSERTATION
from experiments.settings.provided import recipe_of
from experiments.settings.thesis_values import PHOTOGRAPHS
from experiments.studies.fair_tables import rows_of
from experiments.studies.final_sampling import FinalSamplingTable
from experiments.studies.generalization_gap import GeneralizationGapTable

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

    of_photographs = recipe_of(options.dataset) in PHOTOGRAPHS
    rows = tuple(row for row in rows_of(name) if of_photographs or "crop" not in row.settings)
    if table == "3.6":
        return GeneralizationGapTable(title, name, rows, options, _MODELS)
    return FinalSamplingTable(make, rows, _ADAPTED) if table in ("5.1", "5.3") else make(rows)
