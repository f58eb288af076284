"""Cost of CCP: update steps of each method until its best validation.

Regenerates: thesis table 3.3 (total training steps on SOP and In-shop, mean of the four models, in thousands).
Expected: the printed steps, beside ours in the table itself. CCP adds 11 % to C2, 36 % to MS and 33 % to the triplet
    loss on SOP, and 11, 34 and 58 % on In-shop; thesis section 3.3.2.3 says 10 to 35 %. The row labels are lost in our
    text of the thesis; they are those of the authors' supplement of "ASAP DML" (its table 3).
"""

from __future__ import annotations

import pathlib

import numpy as np

from experiments import reports
from experiments.plans.study import Cell, FinishedCells, Study, StudyOptions, finished_rows
from experiments.reports import Table
from experiments.rows.rows import Row
from experiments.settings.method_names import PAIR_LOSSES
from experiments.studies.chapters import budget_notes, ccp_settings, row_settings

_LOSSES = ("c2", "c2+xbm", "ms", "triplet", "panchor", "pnca", "softtriple")
_PRINTED = {  # our method: its row
    "c2": "C2",
    "c2+xbm": "C2+XBM-L",
    "c2+ccp": "C2+CCP-L",
    "ms": "MS",
    "ms+ccp": "MS+CCP-L",
    "triplet": "Triplet",
    "triplet+ccp": "Triplet+CCP-L",
    "panchor": "ProxyAnchor",
    "pnca": "ProxyNCA++",
    "softtriple": "SoftTriple",
}
_DEMO = {"max_steps": 2000, "steps_per_evaluation": 50, "patience": 10}  # long enough for some methods to be done


class TrainingSteps(Study):
    """Study with a row for each loss, and one with CCP if possible."""

    def __init__(self, options: StudyOptions):
        settings = {**ccp_settings(options), **(_DEMO if options.budget == "demo" else {})}
        self.groups: dict[str, list[Cell]] = {}
        for loss in options.losses or _LOSSES:
            of_row = {**settings, **row_settings(loss, options.dataset)}
            self.groups[loss] = options.cells(loss, options.configuration(loss, settings=of_row))
            if loss in PAIR_LOSSES:
                config = options.configuration(loss, "ccp", settings=settings)
                self.groups[f"{loss}+ccp"] = options.cells(f"{loss}+ccp", config)
        self.title = f"Update steps until the best validation on {options.dataset} (thesis table 3.3)"
        self.notes = (
            "SOP, In-shop: the printed steps in all, rounded to thousands, mean of the four models at the full budget.",
            *budget_notes(options, settings),
        )

    def render(self, finished: FinishedCells, folder: pathlib.Path, name: str) -> str:
        """Write the table of finished runs."""
        runs = {method: finished_rows(cells, finished) for method, cells in self.groups.items()}
        lines = []
        for method, of_method in runs.items():
            if not of_method:
                continue
            best, total = _mean_steps(of_method)
            printed = [_printed_steps(method, dataset) for dataset in ("SOP", "In-shop")]
            limit = any(row["steps"] >= row["configuration"]["max_steps"] for row in of_method)
            change = _change(of_method, runs[method.removesuffix("+ccp")]) if method.endswith("+ccp") else "-"
            validation = np.mean([row["validation"]["MAP@R"] for row in of_method])
            figures = [f"{best:,.0f}", change, f"{total:,.0f}{'*' if limit else ''}", f"{100 * validation:.2f}"]
            lines.append([method, *figures, *printed])
        header = ["method", "steps to best", "with CCP", "steps in all", "validation MAP@R (%)", "SOP", "In-shop"]
        notes = ["* training ended at the budget's last step, the best may not have been reached.", *self.notes]
        return Table(self.title, header, lines, notes).write(folder, name, latex=True)


def _mean_steps(runs: list[Row]) -> tuple[float, float]:
    """Return mean steps until the best validation and until training ended."""
    return float(np.mean([row["best_step"] for row in runs])), float(np.mean([row["steps"] for row in runs]))


def _change(runs: list[Row], plain: list[Row]) -> str:
    """Return CCP's change of steps in per cent, a dash before both finish."""
    if [row.place for row in runs] != [row.place for row in plain]:
        return "-"
    return f"{100 * (_mean_steps(runs)[0] / _mean_steps(plain)[0] - 1):+.0f} %"


def _printed_steps(method: str, dataset: str) -> str:
    """Return the printed steps of a method, a dash without a row."""
    printed = reports.published_value("3.3", dataset, _PRINTED.get(method, ""), 128, "total_training_steps")
    return f"{printed.value:,.0f}" if printed else "-"
