"""Tables of the analyses of finished runs: diagnostics beside retrieval, and refined metric matrices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from common.diagnostics.diagnostic_names import NAMES
from common.errors import InvalidInput, check_choice
from experiments import reports
from experiments.protocols.diagnostics import METRICS, Point, correlation_table
from experiments.protocols.feature_report import FEATURE_COLUMNS, feature_lines, group_note
from experiments.protocols.one_split import cell
from experiments.protocols.posterior_refinement import COMPARED_MODE, DRAWN, KEPT, MODES, kept_name
from experiments.reports.tables import DETECTABLE_NOTE
from experiments.rows.fair_rows import MINUS, SINGLE
from experiments.rows.rows import TRAINING
from experiments.rows.scores import labels_of, scores_of_trainings
from experiments.rows.store import StudyRows

_PROPERTIES = {"rank": "rank", "trace": "trace", "frobenius_norm": "norm", "smallest_eigenvalue": "smallest eigenvalue"}
_ROUNDING = 1e-9  # of eigenvalues of matrices of doubles
_COLUMNS = tuple((kind, metric) for metric in DRAWN for kind in (SINGLE, MINUS))


def diagnostics(study: StudyRows) -> tuple[reports.PlainTable, list[str]]:
    """Correlate each diagnostic of the test embeddings with each metric (Spearman).

    Only repeats that all methods have count, so that methods weigh alike.

    Args:
        study: rows of one data set, of at least three methods; several studies may be joined.

    Raises:
        InvalidInput: a run has no diagnostics, or they are of several data sets.
    """
    rows = _trainings(study, "diagnostics", "Record them again: runs keep diagnostics of their test embeddings.")
    datasets = sorted({row["dataset"] for row in rows})
    if len(datasets) > 1:
        raise InvalidInput(f"{study.folder} has rows of {', '.join(datasets)}: expected those of one data set.")
    points = []
    counted = _of_common_repeats(rows)
    for row in counted:
        scores = {metric: row["test"][metric] for metric in METRICS}
        kept = row["extras"]["diagnostics"]
        figures = {name: kept[name] for name in NAMES if name in kept}
        points.append(Point(row["config_hash"], row["fold"], row["label"], scores, figures))
    table = correlation_table(points, datasets[0])
    notes = list(table.notes)
    if len(counted) < len(rows):
        notes.append(f"{len(rows) - len(counted)} runs of repeats that not all methods have are left out.")
    return reports.PlainTable("", ["diagnostic", *table.header[1:]], table.rows, notes), _labels(rows)


def _of_common_repeats(rows: Sequence[dict]) -> list[dict]:
    """Keep the rows of repeats that each method has."""
    of_methods: dict[str, set[int]] = {}
    for row in rows:
        of_methods.setdefault(row["label"], set()).add(row["repeat"])
    common = set.intersection(*of_methods.values()) if of_methods else set()
    return [row for row in rows if row["repeat"] in common]


def diagnostic_means(study: StudyRows, methods: str, names: str) -> tuple[reports.PlainTable, list[str]]:
    """Tabulate diagnostics of the test embeddings: mean and range of runs.

    Args:
        study: its rows.
        methods: their labels, separated by commas.
        names: of diagnostics, separated by commas.

    Raises:
        InvalidInput: the study has no such method, or its rows no such diagnostic.
    """
    labels = [check_choice("method", label.strip(), labels_of(study)) for label in methods.split(",")]
    chosen = [check_choice("diagnostic", name.strip(), NAMES) for name in names.split(",")]
    lines = []
    for label in labels:
        kept = [row["extras"].get("diagnostics", {}) for row in scores_of_trainings(study, label).rows]
        cells = []
        for name in chosen:
            values = [of[check_choice(f"diagnostic of {label}", name, of)] for of in kept]
            cells.append(f"{np.mean(values):.3f} ({min(values):.3f} to {max(values):.3f})")
        lines.append([f"`{label.removesuffix('+gap')}`", *cells])
    notes = ["Of the test embeddings: the mean of the runs, in brackets their range."]
    return reports.PlainTable("", ["method", *chosen], lines, notes), labels


def feature_slices(study: StudyRows) -> tuple[reports.PlainTable, list[str]]:
    """Tabulate each feature of multi-feature embeddings, and their concatenation.

    Args:
        study: its rows.

    Raises:
        InvalidInput: no row has such figures.
    """
    rows = [row for row in study.rows if row["kind"] == TRAINING and row["extras"].get("features")]
    if not rows:
        raise InvalidInput(
            f"{study.folder} has no runs with several features, such as those of margin+distance+shared."
        )
    lines, notes = [], ["Each feature is a slice of the embedding, and `concatenated` is all of them. Means over runs."]
    for label in _labels(rows):
        found = [row["extras"]["features"] for row in rows if row["label"] == label]
        method = f"`{label.removesuffix('+gap')}`"
        lines += [[f"{method}, {line[0]}", *line[1:]] for line in feature_lines(found)]
        notes += [note] if (note := group_note(method, found)) else []
    return reports.PlainTable("", ["method, feature", "runs", "dim", *FEATURE_COLUMNS], lines, notes), _labels(rows)


def refined_metrics(study: StudyRows) -> tuple[reports.PlainTable, list[str]]:
    """Compare retrieval by refined metric matrices with the trained one.

    Args:
        study: rows of one configuration, recorded by `experiments.posterior_refinement`.

    Raises:
        InvalidInput: a run was not refined, or its matrices differ from the others'.
    """
    rows = _trainings(study, KEPT, "Record them by `python -m experiments.posterior_refinement --record`.")
    kept = [row["extras"][KEPT] for row in rows]
    asked = {(of["draws"], *(matrix["label"] for matrix in of["matrices"])) for of in kept}
    if len(asked) > 1:
        raise InvalidInput(
            f"{study.folder} has runs refined by different matrices or draws. Record all of them with the same flags."
        )
    draws, *labels = asked.pop()
    lines, found = [], _compared_matrices(study, rows, labels)
    for place, row in enumerate(found):
        texts = {column: reports.cell_text(row.cells.get(column)) for column in _COLUMNS}
        matrices = [of["matrices"][place] for of in kept]
        properties = [float(np.mean([of[name] for of in matrices])) for name in _PROPERTIES]
        figures = [f"{text.figure} {text.interval}".rstrip() for text in texts.values()]
        lines.append([row.method, *map(_property, properties), *figures, *_other_modes(matrices)])
    header = ["M'", *_PROPERTIES.values()]
    header += [name for metric in DRAWN for name in (f"{metric}, {COMPARED_MODE}", "minus trained")]
    header += [f"{mode}: {' / '.join(DRAWN)}" for mode in MODES if mode != COMPARED_MODE]
    notes = [
        f"Mean of {len(rows)} runs; D(r), R(r) below 1 and random axes: of {draws} draws per run. Rank, trace, norm "
        "and eigenvalue are those of the first draw.",
        *(note for note in reports.footnotes(found) if note != DETECTABLE_NOTE),
    ]
    return reports.PlainTable("", header, lines, notes), _labels(rows)


def _compared_matrices(study: StudyRows, rows: Sequence[dict], labels: Sequence[str]) -> list[reports.TableRow]:
    """Compare all matrices with the first, with intervals, tested together."""
    members = reports.training_members([(row["fold"], row["repeat"]) for row in rows])
    scored = [study.scored(row) for row in rows]
    sums = {metric: np.stack([of.arrays[kept_name(metric)] for of in scored], axis=1) for metric in DRAWN}
    found = []
    for place, label in enumerate(labels):
        cells = {}
        for metric in DRAWN:
            ours, trained = (reports.ClassScores(sums[metric][at], scored[0].counts) for at in (place, 0))
            cells[SINGLE, metric] = cell(reports.class_clustered_interval(ours, members=members))
            if place:
                difference = reports.paired_difference(ours, trained, members=members)
                cells[MINUS, metric] = cell(difference, is_difference=True, baseline=labels[0])
        found.append(reports.TableRow(label, cells))
    return reports.compared(found)


def _property(value: float) -> str:
    """Format four digits; zeros up to rounding become zero."""
    return f"{value if abs(value) > _ROUNDING else 0.0:.4g}"


def _other_modes(matrices: Sequence[dict]) -> list[str]:
    """Average runs' metrics in the modes of ranking beside the compared one."""
    return [
        " / ".join(f"{100 * np.mean([of['scores'][mode][metric] for of in matrices]):.2f}" for metric in DRAWN)
        for mode in MODES
        if mode != COMPARED_MODE
    ]


def _trainings(study: StudyRows, extra: str, cure: str) -> list[dict]:
    """Return the rows of runs in order; refuse runs that lack `extra`."""
    rows = [row for row in study.rows if row["kind"] == TRAINING]
    lacking = [row for row in rows if extra not in row["extras"]]
    if lacking or not rows:
        raise InvalidInput(f"{study.folder}: {len(lacking)} of {len(rows)} runs have no {extra}. {cure}")
    return rows


def _labels(rows: Sequence[dict]) -> list[str]:
    return list(dict.fromkeys(row["label"] for row in rows))
