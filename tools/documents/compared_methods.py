"""The comparisons of a study's table, and its difference of two methods."""

from __future__ import annotations

import functools
import re
from typing import cast

from common.errors import check_choice
from experiments import reports
from experiments.plans.fair_table import FairTable
from experiments.plans.study import StudyOptions
from experiments.rows.fair_rows import MINUS, table_rows
from experiments.rows.rows import TRAINING
from experiments.rows.store import StudyRows
from experiments.studies.tables import TABLES

_TABLE = re.compile(r"experiments\.table --id=(\S+)")


def baselines_of(study: StudyRows, table: str) -> dict[str, str | None]:
    """Return the baseline of each method, by label, in the table's order.

    Args:
        study: its rows.
        table: a key of `experiments.studies.tables.TABLES`.
    """
    first = next(row for row in study.rows if row["kind"] == TRAINING)
    configuration = first["configuration"]
    # Where a data set brings no network of its own, its table has to be told one.
    start = {} if configuration["weights"] in ("none", "imagenet") else {"weights": configuration["weights"]}
    options = StudyOptions(first["dataset"], configuration["budget"], overrides=start)
    asked = cast(FairTable, TABLES[check_choice("table", table, TABLES)](options))  # or another with such `rows`
    return {label: row.baseline for label, row in asked.rows.items()}


def difference_in_table(study: StudyRows, label: str, baseline: str) -> reports.CellText | None:
    """Return the difference of two methods from the table that trained them.

    A table pools its comparisons' knowledge of the spread of training, so its intervals are not those of the two alone.

    Args:
        study: its rows.
        label: of the method.
        baseline: label of the method compared with.

    Returns:
        None if the runs are of no table or of several, or the table compares the method with another one.
    """
    cell = _differences(study).get(label)
    return reports.cell_text(cell) if cell is not None and cell.baseline == baseline else None


@functools.lru_cache(maxsize=64)  # a document has many values of a study
def _differences(study: StudyRows) -> dict[str, reports.TableCell]:
    """Return the table's differences of MAP@R, by the method's label."""
    commands = {row.get("command") or "" for row in study.rows if row["kind"] == TRAINING}
    tables = {match[1] for match in map(_TABLE.search, commands) if match}
    if len(tables) != 1 or not tables <= set(TABLES):
        return {}
    rows = table_rows(study, baselines_of(study, *tables))
    return {row.method: row.cells[MINUS, "MAP@R"] for row in rows if (MINUS, "MAP@R") in row.cells}
