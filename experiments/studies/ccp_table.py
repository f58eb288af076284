"""CCP beside pair losses alone, cross-batch memories and proxy losses.

Regenerates: thesis table 3.1 (13 methods on four data sets under the fair protocol) and its summary, figure 3.4, which
    adds the variants S: one proxy per class, and the small cross-batch memory.
Command: python -m experiments.table --id=3.1 --dataset=glyphs --budget=demo --run; the summary: experiments.figure
    --id=3.4
Expected: the printed cells, beside ours in the table itself. The rows are the variants L; SoftTriple on SOP and
    In-shop is S (one centre per class) as in the thesis. No table prints the variants S of figure 3.4.
Cost: `--budget=demo` on glyphs 52 runs, about an hour on 2 CPU cores; `--budget=full` on SOP 52 runs of
    4.2 hours on an RTX 2080 Ti (estimated); `--budget=smoke` 26 runs, five minutes.
"""

from __future__ import annotations

from collections.abc import Sequence

from experiments.plans.fair_table import FairRow, FairTable
from experiments.plans.study import StudyOptions
from experiments.studies.ccp_settings import row_settings

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
