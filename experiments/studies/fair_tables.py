"""Tables of the fair protocol: 3.1, 5.1, 5.3 and the benchmark of losses.

CCP beside pair losses alone, cross-batch memories and proxy losses.

Regenerates: thesis table 3.1 (13 methods on four data sets under the fair protocol) and its summary, figure 3.4, which
    adds the variants S: one proxy per class, and the small cross-batch memory.
Expected: the printed cells, beside ours in the table itself. The rows are the variants L; SoftTriple on SOP and
    In-shop is S (one centre per class) as in the thesis. No table prints the variants S of figure 3.4.

GSP instead of average pooling, under every loss, with XBM and CCP.

Regenerates: thesis table 5.1 (15 rows on four data sets under the fair protocol) and its summary, figure 5.7.
Expected: the printed cells, beside ours in the table itself (mean and spread of 81 collections: four folds, three
    repeats, as in `--budget=full`). The rest of figure 5.7 is unknown.

Contribution of each part of GSP: the zero-shot prediction loss alone, pooling alone, both.

Regenerates: thesis table 5.3 (C2 with L_ZS and GSP on and off, four data sets, fair protocol).
Expected: the printed cells, beside ours in the table itself; on CUB 20.58, 20.85 (GSP), 21.08 (L_ZS), 21.52 (both),
    128-D MAP@R.

Losses of the "Revisiting" benchmark, fair protocol, with and without rho-regularisation.

Regenerates: nothing printed: Milbich's dissertation compares these losses (table 2.2, by the command
    `experiments.revisiting_eval`) under a protocol that selects on the test set; here they have four folds, held-out
    classes and intervals. Regularisation is added wherever it applies.
Expected: in the dissertation (CUB, R@1) all of them except the contrastive loss lie between 61.6 and 63.1; regularised
    they gain .2 (margin from 1.2) to 2.4 points (from .6), on SOP -.1 to 1.2. Ours: docs/results/losses.md.
"""

from __future__ import annotations

import csv
import functools
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from experiments.plans.fair_table import FairRow, FairTable
from experiments.plans.study import StudyOptions
from experiments.studies.chapters import row_settings

_PAIR_LOSSES = {"c1": "C1", "c2": "C2", "ms": "MS", "triplet": "Triplet"}
_WITH_MEMORY = ("c1", "c2")
_PROXY_LOSSES = {"panchor": "ProxyAnchor", "pnca": "ProxyNCA++", "softtriple": "SoftTriple-S/L"}
_SMALL_MEMORY_BATCHES = {"inshop": 100, "sop": 400}  # thesis section 3.3.2.1; 3 on CUB and Cars


def ccp_table(options: StudyOptions) -> FairTable:
    """Return the study of table 3.1."""
    title = f"Fair evaluation of CCP on {options.dataset} (thesis table 3.1)"
    return FairTable(title, "3.1", _rows(options.dataset), options, chapter=3)


def ccp_summary(options: StudyOptions) -> FairTable:
    """Return the study of figure 3.4."""
    title = f"Fair evaluation of CCP on {options.dataset} with the small variants (thesis figure 3.4)"
    return FairTable(title, "3.1", [*_rows(options.dataset), *_small_rows(options.dataset)], options, chapter=3)


def _rows(dataset: str) -> Sequence[FairRow]:
    rows = []
    for loss, printed in _PAIR_LOSSES.items():
        rows.append(FairRow(f"{loss}+gap", printed))
        if loss in _WITH_MEMORY:
            rows.append(FairRow(f"{loss}+xbm+gap", f"{printed}+XBM-L", f"{loss}+gap"))
        rows.append(FairRow(f"{loss}+ccp+gap", f"{printed}+CCP-L", f"{loss}+gap"))
    for loss, printed in _PROXY_LOSSES.items():
        rows.append(FairRow(f"{loss}+gap", printed, settings=row_settings(loss, dataset)))
    return rows


def _small_rows(dataset: str) -> Sequence[FairRow]:
    memory = {"xbm_batches": _SMALL_MEMORY_BATCHES.get(dataset, 3)}
    rows = []
    for loss, printed in _PAIR_LOSSES.items():
        if loss in _WITH_MEMORY:
            rows.append(FairRow(f"{loss}+xbm+gap", f"{printed}+XBM-S", f"{loss}+gap", memory, "S"))
        one_proxy = {"proxies_per_class": 1}
        rows.append(FairRow(f"{loss}+ccp+gap", f"{printed}+CCP-S", f"{loss}+gap", one_proxy, "S"))
    return rows


_CCP_NOTE = (
    "Rows with CCP follow chapter 5, as the others do: four times as many steps between validations as in chapter 3, "
    "so that a projection problem lasts at least four times as long. The thesis does not say which it did."
)


def gsp_table(options: StudyOptions, item: str = "table 5.1") -> FairTable:
    """Return the study of table 5.1, or of figure 5.7: the same cells."""
    title = f"Fair evaluation of GSP on {options.dataset} (thesis {item})"
    return FairTable(title, "5.1", rows_of("5.1"), options, chapter=5, notes=(_CCP_NOTE,))


_NO_PREDICTION: Mapping[str, object] = {"zero_shot_weight": 0.0}
_AVERAGE: Mapping[str, object] = {"transport_ratio": 1.0}  # average pooling, with the attributes that L_ZS needs


def gsp_parts(options: StudyOptions) -> FairTable:
    """Return the study of table 5.3: C2 alone, unless `--loss` selects others."""
    rows = [row for loss in options.losses or ("c2",) for row in _part_rows(loss)]
    title = f"Parts of GSP on {options.dataset} (thesis table 5.3)"
    notes = ("L_ZS alone is GSP with a transport ratio of 1, which is average pooling.",)
    return FairTable(title, "5.3", rows, options, chapter=5, notes=notes)


def _part_rows(loss: str) -> list[FairRow]:
    printed = loss.upper()
    plain = f"{loss}+gap"
    return [
        FairRow(plain, f"{printed} (GAP)"),
        FairRow(f"{loss}+gsp", f"{printed}+GSP (no ZSP)", plain, _NO_PREDICTION, "no L_ZS"),
        FairRow(f"{loss}+gsp", f"{printed}+ZSP (GAP, mu=1)", plain, _AVERAGE, "L_ZS alone"),
        FairRow(f"{loss}+gsp", f"{printed}+GSP+ZSP", plain),
    ]


def loss_benchmark(options: StudyOptions) -> FairTable:
    """Return the study: losses against margin, regularised ones against themselves without.

    A loss of `--loss` that has no row here, such as one of a plug-in, gets one.
    """
    title = f"Losses, mining and rho-regularisation on {options.dataset}"
    rows = rows_of("losses")
    known = {row.method.split("+")[0] for row in rows}
    added = [loss for loss in options.losses if loss.split("+")[0] not in known]
    others = [FairRow(f"{loss}+gap", baseline=rows[0].label) for loss in added]
    return FairTable(title, None, (*rows, *others), options, chapter=5)


@functools.cache
def rows_of(table: str) -> tuple[FairRow, ...]:
    """Read the rows of a table from `fair_rows.csv`; their settings are `name=value;name=value`."""
    text = (resources.files("experiments.studies") / "fair_rows.csv").read_text(encoding="utf-8")
    return tuple(
        FairRow(row["method"], row["printed"] or None, row["baseline"] or None, _settings(row), row["variant"])
        for row in csv.DictReader(text.splitlines())
        if row["table"] == table
    )


def _settings(row: Mapping[str, str]) -> dict[str, Any]:
    pairs = [pair.split("=") for pair in row["settings"].split(";") if pair]
    return {name: value if value[0].isalpha() and value != "true" else json.loads(value) for name, value in pairs}
