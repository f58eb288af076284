"""Contribution of each part of GSP: the zero-shot prediction loss alone, pooling alone, both.

Regenerates: thesis table 5.3 (C2 with L_ZS and GSP on and off, four data sets, fair protocol).
Command: python -m experiments.table --id=5.3 --dataset=glyphs --budget=demo --run
Expected: the printed cells, beside ours in the table itself; on CUB 20.58, 20.85 (GSP), 21.08 (L_ZS), 21.52 (both),
    128-D MAP@R.
Cost: `--budget=demo` on glyphs 16 runs, about 20 minutes on 2 CPU cores; `--budget=full` on CUB 48 runs
    of 19 minutes on an RTX 2080 Ti (estimated); `--budget=smoke` 8 runs, two minutes.
"""

from __future__ import annotations

from collections.abc import Mapping

from experiments.plans.fair_table import FairRow, FairTable
from experiments.plans.study import StudyOptions

_NO_PREDICTION: Mapping[str, object] = {"zero_shot_weight": 0.0}
_AVERAGE: Mapping[str, object] = {"transport_ratio": 1.0}  # average pooling, with the attributes that L_ZS needs


def gsp_parts(options: StudyOptions) -> FairTable:
    """Return the study of table 5.3: C2 alone, unless `--loss` selects others."""
    rows = [row for loss in options.losses or ("c2",) for row in _rows(loss)]
    title = f"Parts of GSP on {options.dataset} (thesis table 5.3)"
    notes = ("L_ZS alone is GSP with a transport ratio of 1, which is average pooling.",)
    return FairTable(title, "5.3", rows, options, chapter=5, notes=notes)


def _rows(loss: str) -> list[FairRow]:
    printed = loss.upper()
    plain = f"{loss}+gap"
    return [
        FairRow(plain, f"{printed} (GAP)"),
        FairRow(f"{loss}+gsp", f"{printed}+GSP (no ZSP)", plain, _NO_PREDICTION, "no L_ZS"),
        FairRow(f"{loss}+gsp", f"{printed}+ZSP (GAP, mu=1)", plain, _AVERAGE, "L_ZS alone"),
        FairRow(f"{loss}+gsp", f"{printed}+GSP+ZSP", plain),
    ]
