"""Fair-protocol tables from rows: single and concatenated models, and differences of methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from common.errors import InvalidInput
from experiments import reports
from experiments.reports.training_effect import CLOSED_FORM, UNTRAINED, means_without_training
from experiments.rows.rows import TRAINING
from experiments.rows.run_rows import repeats_of_all_folds
from experiments.rows.scores import (
    cell,
    collection_scores,
    figures_row,
    labels_of,
    scores_of_trainings,
    training_scores,
)
from experiments.rows.store import StudyRows

SINGLE, CONCATENATED, MINUS = "single", "concatenated", "minus baseline"


def complete_repeats(study: StudyRows, label: str) -> int:
    """Count a method's repeats that every fold has; 0 if absent.

    Args:
        study: its rows.
        label: of the method.
    """
    rows = [row for row in study.rows if row["kind"] == TRAINING and row["label"] == label]
    places = {(row["fold"], row["repeat"]) for row in rows}
    return repeats_of_all_folds(places, rows[0]["configuration"]["num_folds"]) if rows else 0


def method_row(study: StudyRows, label: str, baseline: str | None = None) -> reports.TableRow:
    """Build a method's row, with its paired MAP@R difference to a baseline.

    Args:
        study: its rows.
        label: of a method with every fold.
        baseline: of another one, or None.
    """
    repeats = complete_repeats(study, label)
    single, concatenated = training_scores(study, label, repeats), collection_scores(study, label, repeats)
    kinds = {SINGLE: single, CONCATENATED: concatenated}
    cells = {
        (kind, metric): cell(scores.estimate(metric))
        for kind, scores in kinds.items()
        for metric in ("P@1", "MAP@R")
        if scores is not None
    }
    if baseline is not None:
        difference = method_difference(study, label, baseline)
        cells[MINUS, "MAP@R"] = cell(difference, is_difference=True, baseline=baseline)
    return reports.TableRow(label, cells)


def method_difference(study: StudyRows, label: str, baseline: str, metric: str = "MAP@R") -> reports.Interval:
    """Subtract a metric of two methods over the repeats that both have.

    Args:
        study: its rows.
        label, baseline: of the methods; of those without a whole repeat of all folds, all runs are compared.
        metric: `MAP@R` or `P@1`.

    Raises:
        InvalidInput: they are other runs, or were tested on other queries.
    """
    common = min(complete_repeats(study, label), complete_repeats(study, baseline)) or None
    ours, theirs = (scores_of_trainings(study, of, common) for of in (label, baseline))
    return ours.difference(theirs, metric)


def untrained_means(study: StudyRows, labels: Sequence[str]) -> dict[str, dict[str, float]]:
    """Average metrics without training over methods' runs; see `means_without_training`."""
    rows = [row for row in study.rows if row["kind"] == TRAINING and row["label"] in labels]
    closed_forms = [row["extras"].get(CLOSED_FORM, {}) for row in rows]
    return means_without_training([row[UNTRAINED] for row in rows], closed_forms)


def table_rows(study: StudyRows, baselines: Mapping[str, str | None]) -> list[reports.TableRow]:
    """Build the rows of complete methods, with the tests of their differences.

    Args:
        study: its rows.
        baselines: each method's baseline by label, in the table's order.
    """
    complete = [label for label in baselines if complete_repeats(study, label)]
    held = {label: baselines[label] if baselines[label] in complete else None for label in complete}
    return reports.compared([method_row(study, label, baseline) for label, baseline in held.items()])


def compared_row(study: StudyRows, label: str, baseline: str | None) -> reports.TableRow:
    """Return a method's P@1 and MAP@R, and the difference from its baseline.

    Args:
        study: its rows.
        label: of the method.
        baseline: label of another method, or None. Without the same runs of it, there is no difference.
    """
    scores = {label: scores_of_trainings(study, label)}
    if baseline is not None and (other := training_scores(study, baseline)) is not None:
        scores[baseline] = other
    return figures_row(scores, label, {MINUS: baseline} if baseline is not None else {}, SINGLE)


def rows_with(study: StudyRows, extra: str, figure: str, label: str | None = None) -> list[dict]:
    """Return runs that keep `extra`, of one label or all, by fold and repeat.

    Args:
        study: its rows.
        extra: name in the rows' extras.
        figure: whose rows keep it, for the message.
        label: of a method; None: all.

    Raises:
        InvalidInput: there is none.
    """
    labels = labels_of(study) if label is None else [label]
    rows = [row for row in study.rows if row["kind"] == TRAINING and row["label"] in labels and extra in row["extras"]]
    if not rows:
        of = "" if label is None else f" of {label}"
        raise InvalidInput(f"{study.folder}: no row{of} keeps {extra!r}. Expected those of figure {figure}.")
    return rows
