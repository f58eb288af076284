"""Losses of the "Revisiting" benchmark, fair protocol, with and without rho-regularisation.

Regenerates: nothing printed: Milbich's dissertation compares these losses (table 2.2, by the command
    `experiments.revisiting_eval`) under a protocol that selects on the test set; here they have four folds, held-out
    classes and intervals. Regularisation is added wherever it applies.
Command: python -m experiments.table --id=losses --dataset=glyphs --budget=demo --run
Expected: in the dissertation (CUB, R@1) all of them except the contrastive loss lie between 61.6 and 63.1; regularised
    they gain .2 (margin from 1.2) to 2.4 points (from .6), on SOP -.1 to 1.2. Ours: docs/results/losses.md.
Cost: `--budget=demo` on glyphs 52 runs of a minute or two on 2 CPU cores; `--budget=full` on SOP 52 runs of
    2.8 hours on an RTX 2080 Ti (estimated); `--budget=smoke` 26 runs, six minutes.
"""

from __future__ import annotations

from experiments.plans.fair_table import FairRow, FairTable
from experiments.plans.study import StudyOptions

_MARGIN, _N_PAIR = "margin+distance+gap", "npair+distance+gap"
_ROWS = (
    FairRow(_MARGIN),
    FairRow("margin+distance+rho+gap", baseline=_MARGIN),
    FairRow("triplet+distance+gap", baseline=_MARGIN),
    FairRow("triplet+distance+rho+gap", baseline="triplet+distance+gap"),
    FairRow("c2+distance+gap", baseline=_MARGIN),
    FairRow("c2+distance+rho+gap", baseline="c2+distance+gap"),
    FairRow("npair+gap", baseline=_MARGIN),
    FairRow(_N_PAIR, baseline="npair+gap"),
    FairRow("npair+distance+rho+gap", baseline=_N_PAIR),
    FairRow("ms+gap", baseline=_MARGIN),
    FairRow("pnca+gap", baseline=_MARGIN),
    FairRow("arcface+gap", baseline=_MARGIN),
    FairRow("normsoftmax+gap", baseline=_MARGIN),
)


def loss_benchmark(options: StudyOptions) -> FairTable:
    """Return the study: losses against margin, regularised ones against themselves without.

    A loss of `--loss` that has no row here, such as one of a plug-in, gets one.
    """
    title = f"Losses, mining and rho-regularisation on {options.dataset}"
    known = {row.method.split("+")[0] for row in _ROWS}
    others = [FairRow(f"{loss}+gap", baseline=_MARGIN) for loss in options.losses if loss.split("+")[0] not in known]
    return FairTable(title, None, (*_ROWS, *others), options, chapter=5)
