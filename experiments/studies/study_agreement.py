"""Recorded study beside printed tables: rank correlations and signs of effects."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from common.errors import InvalidInput
from experiments import reports
from experiments.published.conventional import ROWS, revisiting_published
from experiments.published.values import PublishedValue, fair_published
from experiments.rows.rows import TRAINING
from experiments.rows.scores import cell, complete_repeats, labels_of, method_difference, scores_of_trainings
from experiments.rows.store import StudyRows
from experiments.studies.rank_agreement import FEWEST_LOSSES, RankAgreement, families, rank_agreements

_FAIR = "fair"


class Effect(NamedTuple):
    """Effect of one change on a method, here and as published."""

    kind: str  # of the change: `memory`, `CCP`, `GSP` or `regularisation`
    label: str  # the method with it
    baseline: str  # the same without
    cell: reports.TableCell  # label - baseline in the table's metric, with its interval, in fractions
    printed: Mapping[str, float]  # the difference by data set, in points

    def agrees_on(self, dataset: str) -> bool:
        """Return whether the estimate has the published sign; zero agrees with none."""
        return self.cell.estimate.mean * self.printed[dataset] > 0


class TableAgreement(NamedTuple):
    """Study beside one printed table."""

    study: str
    table: str  # a key of `RANKINGS`
    labels: tuple[str, ...]  # the study's methods that the table prints
    twins: tuple[str, ...]  # methods whose printed row another one is nearer to
    incomplete: tuple[str, ...]  # methods without every fold
    ranks: Mapping[str, RankAgreement]  # by printed data set
    effects: tuple[Effect, ...]  # paired differences of these methods


def study_agreement(study: StudyRows) -> list[TableAgreement]:
    """Compare a fair study with printed tables of enough shared losses."""
    rows = _fair_rows(study)
    configurations = {row["label"]: row["configuration"] for row in rows}
    complete = [label for label in labels_of(study) if label in configurations and complete_repeats(study, label)]
    incomplete = tuple(label for label in configurations if label not in complete)
    found, most = [], 0
    for table, ranking in RANKINGS.items():
        printed, twins = printed_methods(ranking, {label: configurations[label] for label in complete})
        trainings = {label: _figures(study, label, ranking.metric) for label in complete}
        ranks = rank_agreements(trainings, printed)
        labels = tuple(label for label in complete if any(label in of for of in printed.values()))
        most = max(most, len(families(labels)))
        if ranks:
            of_labels = {label: configurations[label] for label in labels}
            effects = tuple(_effects(study, of_labels, ranking.metric, printed))
            found.append(TableAgreement(study.name, table, labels, twins, incomplete, ranks, effects))
    if not found:
        raise InvalidInput(
            f"{study.folder} cannot be compared: received {len(complete)} methods with every fold "
            f"({', '.join(complete) or 'none'}), of which a printed table has at most {most} losses; expected "
            f"at least {FEWEST_LOSSES} that one of {', '.join(RANKINGS)} has. Record more of its methods, such as "
            "those of `experiments.table --id=5.1`."
        )
    return found


def _fair_rows(study: StudyRows) -> list[dict]:
    rows = [row for row in study.rows if row["kind"] == TRAINING and row["protocol"] == _FAIR]
    if not rows:
        raise InvalidInput(
            f"{study.folder} cannot be compared: received no row of the fair protocol there, expected the folder of a "
            "study. Record one: python -m experiments.table --id=5.1 --run --record=results/table_5_1"
        )
    tested = sorted({f"{row['dataset']} (data {row['data']})" for row in rows})
    if len(tested) > 1:
        raise InvalidInput(
            f"{study.folder} cannot be compared: received rows of {', '.join(tested)}, expected one data set. Record "
            "each into a folder of its own."
        )
    return rows


def _figures(study: StudyRows, label: str, metric: str) -> np.ndarray:
    """Return a method's metric `[folds, repeats]` over repeats that every fold has."""
    repeats = complete_repeats(study, label)
    rows = scores_of_trainings(study, label, repeats).rows  # by fold, then repeat
    return np.array([row["test"][metric] for row in rows]).reshape(-1, repeats)


def _effects(study: StudyRows, configurations: Mapping[str, Configuration], metric: str, printed) -> Iterator[Effect]:
    """Yield every change with both methods among the labels, tested together."""
    pairs = list(_pairs(configurations))
    rows = []
    for _, label, baseline in pairs:
        difference = cell(method_difference(study, label, baseline, metric), is_difference=True, baseline=baseline)
        rows.append(reports.TableRow(f"{label} - {baseline}", {("", metric): difference}))
    for (kind, label, baseline), row in zip(pairs, reports.compared(rows)):
        gaps = {
            dataset: round(of[label] - of[baseline], 4)
            for dataset, of in printed.items()
            if label in of and baseline in of
        }
        if gaps:
            yield Effect(kind, label, baseline, row.cells["", metric], gaps)


def _pairs(configurations: Mapping[str, Configuration]) -> Iterator[tuple[str, str, str]]:
    """Yield kind, label and baseline of each change."""
    owners = {_method(configuration): label for label, configuration in configurations.items()}
    for (loss, method, pooling), label in owners.items():
        parts = loss.split("+")
        changes = {
            "memory": ("+".join(part for part in parts if part != "xbm"), method, pooling),
            "CCP": (loss, "plain", pooling),
            "GSP": (loss, method, "gap" if pooling == "gsp" else pooling),
            "regularisation": ("+".join(part for part in parts if part != "rho"), method, pooling),
        }
        for kind, without in changes.items():
            if without != (loss, method, pooling) and without in owners:
                yield kind, label, owners[without]


def _method(configuration: Configuration) -> tuple[str, str, str]:
    loss, method, pooling = (str(configuration[name]) for name in ("loss", "method", "pooling"))
    return loss, method, pooling


Configuration = Mapping[str, object]  # fields of `ExperimentConfig`
_DIM = 128  # what the thesis calls the mean of single models


class PrintedRanking(NamedTuple):
    """Printed table."""

    metric: str  # compared, of `Scores`
    datasets: tuple[str, ...]
    cell: Callable[[Configuration, str], PublishedValue | None]  # of a configuration on a data set, or None


def printed_methods(
    ranking: PrintedRanking, configurations: Mapping[str, Configuration]
) -> tuple[dict[str, dict[str, float]], tuple[str, ...]]:
    """Assign the printed figures to a study's methods, each row to one method.

    Returns:
        Percent, by data set and label, without lost and doubtful cells; and the labels whose printed row another label
        of the study is nearer to.
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
    return figures, tuple(dict.fromkeys(twins))


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
