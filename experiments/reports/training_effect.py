"""Effect of training and of projection problems: one rule for all reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from common.retrieval.metrics import TABLE_METRICS
from experiments.reports.tables import TableCell, TableRow
from experiments.rows.rows import CLOSED_FORM, UNTRAINED, Row
from experiments.settings.run_settings import HEAD_STARTS


def means_without_training(untrained: Iterable[Mapping], closed_forms: Iterable[Mapping]) -> dict[str, dict]:
    """Average what runs measured without training; return metrics by row of a table.

    Args:
        untrained: metrics of the backbone's average features, of each run with some.
        closed_forms: metrics by name of the closed form, of each run; older runs and further repeats have none.
    """
    found = {"untrained backbone": list(untrained)}
    closed_forms = list(closed_forms)
    for name in HEAD_STARTS:
        found[f"untrained + {name}"] = [figures[name] for figures in closed_forms if name in figures]
    return {
        label: {
            metric: float(np.mean([one[metric] for one in figures]))
            for metric in TABLE_METRICS
            if all(metric in one for one in figures)
        }
        for label, figures in found.items()
        if figures
    }


def rows_without_training(runs: Iterable[Row], size: str) -> list[TableRow]:
    """Return finished runs' figures without training as lines of a table, the backbone's first."""
    runs = list(runs)
    means = means_without_training(
        [row[UNTRAINED] for row in runs if row[UNTRAINED]], [row["extras"].get(CLOSED_FORM, {}) for row in runs]
    )
    return [
        TableRow(label, {(size, metric): TableCell(mean) for metric, mean in figures.items()})
        for label, figures in means.items()
    ]


def training_did_not_help(trained: float, untrained: float | None) -> str | None:
    """Return a clause if training did not raise test MAP@R, else None."""
    if untrained is None or trained > untrained:
        return None
    return (
        f"training did not beat the untrained backbone's average features (MAP@R {100 * trained:.2f}, "
        f"{100 * untrained:.2f} before)"
    )


def runs_without_problem(problems: Sequence[Sequence[object] | None]) -> str | None:
    """Return a clause on CCP runs without projection problems, or None.

    Runs of other methods have None for problems.
    """
    of_ccp = [found for found in problems if found is not None]
    without = sum(not found for found in of_ccp)
    if not without:
        return None
    return f"no projection problem began in {without} of {len(of_ccp)} runs, which trained with the loss alone"
