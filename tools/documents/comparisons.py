"""Tables of differences from rows: of methods, and of refined metric matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from common.errors import InvalidInput, check_given
from common.pages.markup import plural
from common.retrieval.metrics import TABLE_METRICS
from experiments import reports
from experiments.protocols.posterior_refinement import COMPARED_MODE, DRAWN, KEPT, KEPT_SUMS, MODES
from experiments.reports.choice import choice_of
from experiments.reports.scores import (
    collection_scores,
    complete_repeats,
    families_of,
    labels_of,
    method_difference,
    training_scores,
)
from experiments.reports.tables import DETECTABLE_NOTE, cell
from experiments.reports.training_effect import means_without_training
from experiments.rows.rows import CLOSED_FORM, TRAINING, UNTRAINED, Row
from experiments.rows.store import StudyRows

Labelled = tuple[reports.Table, Sequence[str]]  # and the labels of the methods in it
SINGLE, CONCATENATED, MINUS = "single", "concatenated", "minus baseline"
_PROPERTIES = {"rank": "rank", "trace": "trace", "frobenius_norm": "norm", "smallest_eigenvalue": "smallest eigenvalue"}
_GAIN = 0.005  # of training, whose share is asked
_ROUNDING = 1e-9  # of eigenvalues of matrices of doubles


def table_rows(study: StudyRows, baselines: Mapping[str, str | None]) -> list[reports.TableRow]:
    """Build the rows of complete methods, with the tests of their differences.

    Args:
        study: its rows.
        baselines: each method's baseline by label, in the table's order.
    """
    complete = [label for label in baselines if complete_repeats(study, label)]
    held = {label: baselines[label] if baselines[label] in complete else None for label in complete}
    return reports.compared([method_row(study, label, baseline) for label, baseline in held.items()])


def method_row(
    study: StudyRows, label: str, baseline: str | None = None, *, is_joined: bool = True
) -> reports.TableRow:
    """Build a method's row, with its paired MAP@R difference to a baseline.

    Args:
        study: its rows.
        label: of the method; without a repeat of every fold, all its runs count.
        baseline: of another one, or None.
        is_joined: also of the concatenated models.
    """
    repeats = complete_repeats(study, label) or None
    kinds = {SINGLE: training_scores(study, label, repeats)}
    if is_joined:
        kinds[CONCATENATED] = collection_scores(study, label, repeats)
    cells = {
        (kind, metric): cell(scores.estimate(metric))
        for kind, scores in kinds.items()
        if scores is not None
        for metric in scores.metrics
    }
    if baseline is not None:
        difference = method_difference(study, label, baseline)
        cells[MINUS, "MAP@R"] = cell(difference, is_difference=True, baseline=baseline)
    return reports.TableRow(label, cells)


def untrained_means(study: StudyRows, labels: Sequence[str]) -> dict[str, dict[str, float]]:
    """Average metrics without training over the first method's runs.

    Other methods may change the network's stride. See `means_without_training`.
    """
    rows = [row for row in study.rows if row["kind"] == TRAINING and row["label"] == labels[0]]
    closed_forms = [row["extras"].get(CLOSED_FORM, {}) for row in rows]
    return means_without_training([row[UNTRAINED] for row in rows], closed_forms)


def chosen_models(study: StudyRows) -> reports.Table:
    """Tabulate P@1 and MAP@R of each label's models: without training, trained, chosen."""

    def text(metrics: Mapping[str, float]) -> str:
        return " / ".join(f"{100 * metrics[name]:.1f}" for name in TABLE_METRICS)

    lines, gains = [], []
    for label in labels_of(study):
        rows = [row for row in study.rows if row["kind"] == TRAINING and row["label"] == label]
        choice = check_given(f"choice of {label}", choice_of(rows, rows[0]["configuration"]["num_folds"]))
        before = untrained_means(study, [label])
        trained = {name: float(np.mean([row["test"][name] for row in rows])) for name in TABLE_METRICS}
        figures = [*map(text, before.values()), text(trained), text(choice.test)]
        lines.append([label, *figures, choice.candidate.words])
        untrained = next(iter(before.values()))["MAP@R"]
        gains.append((choice.test["MAP@R"] - untrained, trained["MAP@R"] - untrained))
    kept = min((chosen / trained for chosen, trained in gains if trained > _GAIN), default=1.0)
    note = f"Chosen minus untrained, MAP@R: at least {100 * min(gains)[0]:+.1f}. The chosen model keeps at least "
    note += f"{100 * kept:.0f} % of what training gains."
    columns = ["untrained", *(name.rpartition(" ")[2] for name in [*before][1:])]
    return reports.Table("", ["photos", *columns, "trained", "chosen", "which is"], lines, [note])


def held_against(study: StudyRows) -> Labelled:
    """Tabulate each method's test figures and MAP@R minus its recorded baseline's."""
    extras = {row["label"]: row["extras"] for row in study.rows if "held against" in row.get("extras", {})}
    if not extras:
        raise InvalidInput(
            f"{study.folder}: no row says what its method is compared with. Expected those of figure 3.7 or "
            "5.12, or of `experiments.record --compared_with`."
        )
    labels = sorted(extras, key=lambda label: extras[label].get("place", 0))
    pairs = [(label, extras[label]["held against"]) for label in labels]
    baselines = dict.fromkeys(baseline for _, baseline in pairs if baseline is not None and baseline not in extras)
    pairs = [*((baseline, None) for baseline in baselines), *pairs]
    rows = reports.compared([method_row(study, *pair, is_joined=False) for pair in pairs])
    lines = []
    for row, (_, baseline) in zip(rows, pairs, strict=True):
        found = [row[SINGLE, metric] for metric in TABLE_METRICS]
        figures = [f"{cell.figure} {cell.interval}".rstrip() for cell in found]
        gap = row[MINUS, "MAP@R"]
        difference = [baseline, f"{gap.figure} {gap.interval}", gap.detectable] if baseline else ["-"] * 3
        lines.append([row.method, *figures, *difference])
    header = [
        "method",
        *(f"test {metric}" for metric in TABLE_METRICS),
        "compared with",
        "difference, MAP@R",
        "detectable",
    ]
    return reports.Table("", header, lines, reports.footnotes(rows)), [label for label, _ in pairs]


def refined_metrics(study: StudyRows) -> reports.Table:
    """Compare retrieval by refined metric matrices with the trained one."""
    rows = [row for row in study.rows if row["kind"] == TRAINING]
    kept = [row["extras"][KEPT] for row in rows if KEPT in row["extras"]]
    asked = {(of["draws"], *(matrix["label"] for matrix in of["matrices"])) for of in kept}
    if len(kept) < len(rows) or len(asked) != 1:
        raise InvalidInput(
            f"{study.folder} has runs without refined matrices, or refined by different ones. Record all of them by "
            "`python -m experiments.posterior_refinement --record` with the same flags."
        )
    draws, *labels = asked.pop()
    columns = [(kind, metric) for metric in DRAWN for kind in (SINGLE, MINUS)]
    lines, found = [], _compared_matrices(study, rows, labels)
    for place, row in enumerate(found):
        matrices = [of["matrices"][place] for of in kept]
        properties = [float(np.mean([of[name] for of in matrices])) for name in _PROPERTIES]
        modes = [
            " / ".join(f"{100 * np.mean([of['scores'][mode][metric] for of in matrices]):.2f}" for metric in DRAWN)
            for mode in MODES
            if mode != COMPARED_MODE
        ]
        rounded = [f"{value if abs(value) > _ROUNDING else 0.0:.4g}" for value in properties]
        lines.append(
            [row.method, *rounded, *(f"{row[of].figure} {row[of].interval}".rstrip() for of in columns), *modes]
        )
    header = ["M'", *_PROPERTIES.values()]
    header += [name for metric in DRAWN for name in (f"{metric}, {COMPARED_MODE}", "minus trained")]
    header += [f"{mode}: {' / '.join(DRAWN)}" for mode in MODES if mode != COMPARED_MODE]
    notes = [
        f"Mean of {plural(len(rows), 'run')}; D(r), R(r) below 1 and random axes: of {plural(draws, 'draw')} per run. "
        "Rank, trace, norm and eigenvalue are those of the first draw.",
        *(note for note in reports.footnotes(found) if note != DETECTABLE_NOTE),
    ]
    return reports.Table("", header, lines, notes)


def _compared_matrices(study: StudyRows, rows: Sequence[Row], labels: Sequence[str]) -> list[reports.TableRow]:
    """Compare all matrices with the first, with intervals, tested together."""
    members = [[(row["fold"], row["repeat"])] for row in rows]
    sums = {metric: np.stack([of.arrays[KEPT_SUMS[metric]] for of in rows], axis=1) for metric in DRAWN}
    found = []
    for place, label in enumerate(labels):
        cells = {}
        for metric in DRAWN:
            both = (reports.ClassScores(sums[metric][at], rows[0].counts) for at in (place, 0))
            ours, trained = (of.by_family(families_of(rows)) for of in both)
            cells[SINGLE, metric] = cell(reports.class_clustered_interval(ours, members=members))
            if place:
                difference = reports.paired_difference(ours, trained, members=members)
                cells[MINUS, metric] = cell(difference, is_difference=True, baseline=labels[0])
        found.append(reports.TableRow(label, cells))
    return reports.compared(found)
