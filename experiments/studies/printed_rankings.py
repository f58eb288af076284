"""Printed tables that rank methods, and the row of a configuration in each.

The tables are those that can share five methods with a study of the fair protocol: thesis tables 3.1 and 5.1, and
table 2.2 of the "Revisiting" benchmark. ASAP table 1 and ICCV table 2 print the runs of 3.1 and 5.1; 3.2, 5.2, 5.3
and PR-1 have fewer of our methods.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from experiments.published.revisiting import ROWS, revisiting_published
from experiments.published.values import PublishedValue, fair_published

Configuration = Mapping[str, object]  # fields of `ExperimentConfig`
_DIM = 128  # what the thesis calls the mean of single models


class PrintedRanking(NamedTuple):
    """Printed table.

    Attributes:
        metric: compared, of `RecordedScores`.
        datasets: as printed.
        cell: the printed cell of a configuration on a data set, or None.
    """

    metric: str
    datasets: tuple[str, ...]
    cell: Callable[[Configuration, str], PublishedValue | None]


class PrintedMethods(NamedTuple):
    """Printed figures of a study's methods.

    Attributes:
        figures: percent, by data set and label; lost and doubtful cells are left out.
        twins: labels whose printed row another label of the study is nearer to.
    """

    figures: Mapping[str, Mapping[str, float]]
    twins: tuple[str, ...]


def printed_methods(ranking: PrintedRanking, configurations: Mapping[str, Configuration]) -> PrintedMethods:
    """Assign the printed figures to a study's methods, each row to one method.

    Args:
        ranking: the table.
        configurations: of the study's methods, by label.
    """
    owners: dict[str, str] = {}
    for label in sorted(configurations, key=lambda label: _distance(label, configurations[label])):
        for dataset in ranking.datasets:
            cell = ranking.cell(configurations[label], dataset)
            if cell is not None:
                owners.setdefault(cell.method, label)
    figures: dict[str, dict[str, float]] = {dataset: {} for dataset in ranking.datasets}
    twins = []
    for label, configuration in configurations.items():
        for dataset in ranking.datasets:
            cell = ranking.cell(configuration, dataset)
            if cell is not None and owners[cell.method] != label:
                twins.append(label)
            elif cell is not None and cell.is_target and cell.value is not None:
                figures[dataset][label] = cell.value
    return PrintedMethods(figures, tuple(dict.fromkeys(twins)))


def _distance(label: str, configuration: Configuration) -> tuple[bool, bool, int]:
    """Return a method's distance to its printed row, by loss, mining and name."""
    loss = str(configuration["loss"])
    row = ROWS.get(loss)
    return bool(row and row.differs), "+distance" not in loss, len(label)


def _fair_cell(table: str, chapter: int) -> Callable[[Configuration, str], PublishedValue | None]:
    def cell(configuration: Configuration, dataset: str) -> PublishedValue | None:
        loss, pooling, method = (str(configuration[name]) for name in ("loss", "pooling", "method"))
        zero_shot = bool(configuration.get("zero_shot_weight"))
        found = fair_published(dataset, loss, pooling, method, _DIM, "MAP@R", chapter=chapter, zero_shot=zero_shot)
        return found if found is not None and found.table == table else None

    return cell


def _revisiting_cell(configuration: Configuration, dataset: str) -> PublishedValue | None:
    is_plain = configuration["method"] == "plain" and configuration["pooling"] == "gap"
    return revisiting_published(dataset, str(configuration["loss"]), "R@1") if is_plain else None


_FOUR = ("SOP", "In-shop", "CUB", "Cars196")
RANKINGS: Mapping[str, PrintedRanking] = {
    "thesis 3.1": PrintedRanking("MAP@R", _FOUR, _fair_cell("3.1", 3)),
    "thesis 5.1": PrintedRanking("MAP@R", _FOUR, _fair_cell("5.1", 5)),
    "Revisiting 2.2": PrintedRanking("P@1", ("SOP", "CUB", "Cars196"), _revisiting_cell),
}
