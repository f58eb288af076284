"""GSP instead of average pooling, under every loss, with XBM and CCP.

Regenerates: thesis table 5.1 (15 rows on four data sets under the fair protocol) and its summary, figure 5.7.
Command: python -m experiments.table --id=5.1 --dataset=glyphs --budget=demo --run; the summary: experiments.figure
    --id=5.7
Expected: the printed cells, beside ours in the table itself (mean and spread of 81 collections: four folds, three
    repeats, as in `--budget=full`). The rest of figure 5.7 is unknown.
Cost: `--budget=demo` on glyphs 60 runs, about 75 minutes on 2 CPU cores; `--budget=full` on SOP 180 runs
    of 2.9 hours on an RTX 2080 Ti (estimated); `--budget=smoke` 30 runs, seven minutes.
"""

from __future__ import annotations

from experiments.plans.fair_table import FairRow, FairTable
from experiments.plans.study import StudyOptions

_ROWS = (
    FairRow("c1+gap", "C1"),
    FairRow("c1+xbm+gap", "C1+XBM", "c1+gap"),
    FairRow("c1+xbm+gsp", "C1+XBM+GSP", "c1+xbm+gap"),
    FairRow("c1+ccp+gap", "C1+CCP", "c1+gap"),
    FairRow("c1+ccp+gsp", "C1+CCP+GSP", "c1+ccp+gap"),
    FairRow("c2+gap", "C2"),
    FairRow("c2+gsp", "C2+GSP", "c2+gap"),
    FairRow("ms+gap", "MS"),
    FairRow("ms+gsp", "MS+GSP", "ms+gap"),
    FairRow("triplet+gap", "Triplet"),
    FairRow("triplet+gsp", "Triplet+GSP", "triplet+gap"),
    FairRow("pnca+gap", "PNCA"),
    FairRow("pnca+gsp", "PNCA+GSP", "pnca+gap"),
    FairRow("panchor+gap", "PAnchor"),
    FairRow("panchor+gsp", "PAnchor+GSP", "panchor+gap"),
)
_CCP_NOTE = (
    "Rows with CCP follow chapter 5, as the others do: four times as many steps between validations as in chapter 3, "
    "so that a projection problem lasts at least four times as long. The thesis does not say which it did."
)


def gsp_table(options: StudyOptions) -> FairTable:
    """Return the study of table 5.1."""
    return _study(options, "table 5.1")


def gsp_summary(options: StudyOptions) -> FairTable:
    """Return the study of figure 5.7: the same cells."""
    return _study(options, "figure 5.7")


def _study(options: StudyOptions, item: str) -> FairTable:
    title = f"Fair evaluation of GSP on {options.dataset} (thesis {item})"
    return FairTable(title, "5.1", _ROWS, options, chapter=5, notes=(_CCP_NOTE,))
