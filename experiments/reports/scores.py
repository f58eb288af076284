"""Estimates and differences of runs, from the class sums of their rows alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from common.errors import InvalidInput, check_given
from common.retrieval.metrics import TABLE_METRICS
from experiments import reports
from experiments.reports.tables import cell
from experiments.rows.rows import COLLECTION, TRAINING, Row, check_same_queries, repeats_of_all_folds
from experiments.rows.store import StudyRows


class Scores:
    """Class sums of the runs, or of the collections, of one method.

    Attributes:
        rows: in the order of fold and repeat, or of the collections' repeats.
        places: fold and repeat of each run; of collections, all their members.
        members: the runs behind each row, as `reports.class_clustered_interval` takes them.
        metrics: columns of tables that all of these rows hold.
    """

    def __init__(self, rows: Iterable[Row]):
        self.rows = sorted((row.scored() for row in rows), key=_place)
        check_same_queries(self.rows)
        self.places = [row.get("members") or (row["fold"], row["repeat"]) for row in self.rows]
        self.members = _members(self.rows)
        self.metrics = [name for name in TABLE_METRICS if all(name in row.sums for row in self.rows)]
        self._counts = self.rows[0].counts
        self._families = families_of(self.rows)

    def estimate(self, metric: str) -> reports.Interval:
        """Estimate the mean over queries and runs with its interval."""
        return reports.class_clustered_interval(self.class_scores(metric), members=self.members)

    def difference(self, reference: Scores, metric: str) -> reports.Interval:
        """Estimate self - reference with its interval, paired by class and training."""
        self.check_comparable(reference)
        families = families_of([*self.rows, *reference.rows])
        ours, theirs = (of._sums(metric).by_family(families) for of in (self, reference))
        return reports.paired_difference(ours, theirs, members=self.members)

    def over_collections(self, metric: str, target: reports.Target | None = None) -> reports.TableCell:
        """Estimate the mean with its interval and the thesis' spread over collections.

        Runs of all folds are averaged within each choice of one repeat per fold; a single collection has no spread.
        """
        if self.rows[0]["kind"] == COLLECTION:
            values = self.class_scores(metric).means
        else:
            figures = {place: row["test"][metric] for place, row in zip(self.places, self.rows)}
            folds, repeats = (1 + max(numbers) for numbers in zip(*figures))
            values = np.array(
                [np.mean([figures[run] for run in enumerate(of)]) for of in reports.collections(folds, repeats)]
            )
        std = float(values.std()) if len(values) > 1 else None
        return reports.TableCell(float(values.mean()), std, self.estimate(metric), target)

    def check_comparable(self, reference: Scores) -> None:
        """Refuse to subtract the scores of other folds, repeats or test classes."""
        if self.places != reference.places or not np.array_equal(self._counts, reference._counts):
            raise InvalidInput(
                f"{self.rows[0]['label']} and {reference.rows[0]['label']} cannot be subtracted: their rows are of "
                "other folds, repeats or test classes. Record the same runs of both."
            )

    def class_scores(self, metric: str) -> reports.ClassScores:
        """Return sums of classes or families, a row per run or collection."""
        return self._sums(metric).by_family(self._families)

    def _sums(self, metric: str) -> reports.ClassScores:
        if any(metric not in row.sums for row in self.rows):
            raise InvalidInput(
                f"{self.rows[0].source}: rows of {self.rows[0]['label']} were recorded without {metric} (they hold "
                f"{', '.join(self.metrics)}). Record these runs again, with --replace."
            )
        return reports.ClassScores(np.stack([row.sums[metric] for row in self.rows]), self._counts)


def families_of(rows: Iterable[Row]) -> np.ndarray | None:
    """Return the families of shared test classes; None if unknown."""
    return next((row.families for row in rows if row.families is not None), None)


def figures_row(
    scores: Mapping[str, Scores], label: str, baselines: Mapping[str, str], column: str = "test"
) -> reports.TableRow:
    """Return a method's P@1 and MAP@R, and its paired differences from baselines, by column.

    Without the same runs of a baseline, there is no difference.
    """
    cells = {(column, metric): cell(scores[label].estimate(metric)) for metric in scores[label].metrics}
    for minus, baseline in baselines.items():
        if baseline in scores and scores[baseline].places == scores[label].places:
            difference = scores[label].difference(scores[baseline], "MAP@R")
            cells[minus, "MAP@R"] = cell(difference, is_difference=True, baseline=baseline)
    return reports.TableRow(label, cells)


def training_scores(study: StudyRows, label: str, repeats: int | None = None) -> Scores | None:
    """Return the scores of a method's runs; None without any."""
    return _scores(study, TRAINING, label, lambda row: repeats is None or row["repeat"] < repeats)


def scores_of_trainings(study: StudyRows, label: str, repeats: int | None = None) -> Scores:
    """Return `training_scores`, or raise `InvalidInput` if there are none."""
    return check_given(f"runs of {label}", training_scores(study, label, repeats))


def collection_scores(study: StudyRows, label: str, repeats: int | None = None) -> Scores | None:
    """Return the scores of a method's concatenated models; None without any."""
    return _scores(
        study, COLLECTION, label, lambda row: repeats is None or all(repeat < repeats for _, repeat in row["members"])
    )


def labels_of(study: StudyRows) -> list[str]:
    """List the methods of a study, in the order of its rows."""
    return list(dict.fromkeys(row["label"] for row in study.rows))


def complete_repeats(study: StudyRows, label: str) -> int:
    """Count a method's repeats that every fold has; 0 if absent."""
    rows = [row for row in study.rows if row["kind"] == TRAINING and row["label"] == label]
    places = {(row["fold"], row["repeat"]) for row in rows}
    return repeats_of_all_folds(places, rows[0]["configuration"].get("num_folds", 1)) if rows else 0


def method_difference(study: StudyRows, label: str, baseline: str, metric: str = "MAP@R") -> reports.Interval:
    """Subtract a metric of two methods over the repeats that both have.

    If one has no whole repeat of all folds, all runs are compared.
    """
    common = min(complete_repeats(study, label), complete_repeats(study, baseline)) or None
    ours, theirs = (scores_of_trainings(study, of, common) for of in (label, baseline))
    return ours.difference(theirs, metric)


def rows_with(study: StudyRows, extra: str, figure: str, label: str | None = None) -> list[Row]:
    """Return runs that keep `extra`, of one label or all, by fold and repeat."""
    labels = labels_of(study) if label is None else [label]
    rows = [row for row in study.rows if row["kind"] == TRAINING and row["label"] in labels and extra in row["extras"]]
    if not rows:
        of = "" if label is None else f" of {label}"
        raise InvalidInput(f"{study.folder}: no row{of} keeps {extra!r}. Expected those of figure {figure}.")
    return rows


def _scores(study: StudyRows, kind: str, label: str, is_wanted) -> Scores | None:
    rows = [row for row in study.rows if row["kind"] == kind and row["label"] == label and is_wanted(row)]
    return Scores(rows) if rows else None


def _place(row: Mapping) -> list:
    return row.get("members") or [row["fold"], row["repeat"]]


def _members(rows: Sequence[Row]) -> list[list[tuple[int, int]]]:
    if rows[0]["kind"] == COLLECTION:
        return [[tuple(member) for member in row["members"]] for row in rows]
    return [[(row["fold"], row["repeat"])] for row in rows]
