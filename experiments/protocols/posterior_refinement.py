"""Refined metric matrices between the features of trunks: ranking and report."""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from common import retrieval
from common.diagnostics import bilinear_embeddings, matrix_properties, metric_matrix
from common.diagnostics.posterior_refinement import MatrixProperties, principal_axes, random_axes, refine
from common.errors import InvalidInput, check_fraction, check_given, invalid
from common.files import write_json
from experiments import reports
from experiments.reports.plots import SweepValue, sweep_lines
from experiments.rows.rows import Row
from experiments.rows.run_folders import collect_method
from experiments.runs.trunk import Trunk

MODES = {"normalised": "metric", "unit features": "features", "as it is": "none"}
_PRINTED_METRICS = {"MAP@R": "MAP@R", "P@1": "P@1", "P@R": "RP"}  # as the paper calls them
METRICS = tuple(_PRINTED_METRICS)
DRAWN = METRICS[:2]
COMPARED_MODE = "normalised"  # for which r = 0 is the trained model
KEPT = "posterior_refinement"  # the name among a row's extras
KEPT_SUMS = {metric: f"refined {metric}" for metric in DRAWN}  # the names of class sums among its arrays
_DIGITS = 6  # of figures in rows: other machines round the last ones in another way
DEFAULT_RATIOS = tuple(tenth / 10 for tenth in range(11))
_PRINTED = {"pnca": "ProxyNCA", "triplet": "Triplet", "arcface": "ArcFace"}
_PRINTED_ROWS = (
    ("as trained", "", "128 (trained W)"),
    ("identity", " + identity (*)", "1024 (trunk, refined M)"),
    ("best restraint", " + best restraint (dagger)", "1024 (trunk, refined M)"),
)


class Refinement(NamedTuple):
    """One row of the table."""

    label: str
    restraint: str | None  # `D`, `R`, or None for all that has no ratio
    ratio: float | None
    properties: MatrixProperties  # of the first run's first draw's matrix
    # by mode, then metric: the figure of each run and draw, as fractions `[runs * draws]`
    scores: dict[str, dict[str, list[float]]]
    # by metric of `DRAWN`, when normalised: the scores' sum over the queries of each test class `[classes]`, mean of
    # the draws; of several runs, the first one's
    class_sums: dict[str, np.ndarray]


def parse_ratios(texts: Sequence[str]) -> list[float]:
    """Parse the ratios r of `--ratio`, in increasing order."""
    try:
        ratios = {float(text) for text in texts}
    except ValueError as error:
        raise invalid("--ratio", received=list(texts), expected="numbers in [0, 1], separated by commas") from error
    if not ratios:
        raise InvalidInput("Invalid --ratio: received an empty list, expected numbers in [0, 1].")
    return sorted(check_fraction("--ratio", ratio, zero_allowed=True) for ratio in ratios)


def refinements(trunk: Trunk, restraints: Sequence[str], ratios: Sequence[float], draws: int, seed: int) -> list:
    """Compute every row: as trained, restraints over r, identity, and two controls.

    Each D(r) and R(r) between 0 and 1 has `draws` seeds.
    """
    trained, dim = metric_matrix(trunk.neck), trunk.neck.shape[1]
    channels = len(trained)

    def row(label: str, restraint: str | None, ratio: float | None, make: Callable, count: int = 1) -> Refinement:
        matrices = [make(seed + index) for index in range(count)]
        results = [ranked(trunk, matrix) for matrix in matrices]
        scores = {mode: [of[mode].as_dict() for of in results] for mode in MODES}
        merged = {mode: {metric: [one[metric] for one in scores[mode]] for metric in METRICS} for mode in MODES}
        sums = [retrieval.class_table(of[COMPARED_MODE], trunk.query_labels).sums for of in results]
        means = {metric: np.mean([of[metric] for of in sums], axis=0) for metric in DRAWN}
        return Refinement(label, restraint, ratio, matrix_properties(matrices[0]), merged, means)

    rows = [row(f"as trained, {min(dim, channels)} of {channels} dimensions", None, None, lambda seed: trained)]
    for restraint in ("D", "R"):
        for ratio in ratios if restraint in restraints else ():
            label = f"{restraint}({ratio:g})"
            if ratio == 0:
                rows.append(rows[0]._replace(label=label, restraint=restraint, ratio=0.0))
                continue
            count = 1 if ratio == 1 else draws  # nothing is left to chance there
            rows.append(row(label, restraint, ratio, lambda s, n=restraint, r=ratio: refine(trained, n, r, s), count))
    if "identity" in restraints:
        rows.append(row(f"identity, all {channels}", None, None, lambda seed: refine(trained, "identity")))
    if dim < channels:
        axes = metric_matrix(principal_axes(trunk.training, dim))
        rows.append(row(f"PCA of the trunk, {dim}", None, None, lambda seed: axes))
        rows.append(
            row(f"random axes, {dim}", None, None, lambda s: metric_matrix(random_axes(channels, dim, s)), draws)
        )
    return rows


def mean_over_runs(rows_of_runs: Sequence[Sequence[Refinement]]) -> list[Refinement]:
    """Merge corresponding rows of several runs, their figures side by side."""
    merged = []
    for same in zip(*rows_of_runs, strict=True):
        scores = {
            mode: {metric: [score for row in same for score in row.scores[mode][metric]] for metric in METRICS}
            for mode in MODES
        }
        merged.append(same[0]._replace(scores=scores))
    return merged


def ranked(trunk: Trunk, matrix: np.ndarray) -> dict[str, retrieval.RetrievalResult]:
    """Rank the test set by `x^T M x'` with a symmetric M `[channels, channels]`."""
    results = {}
    for mode, normalization in MODES.items():
        queries, others = bilinear_embeddings(trunk.queries, matrix, normalization)
        exclude_same_row = trunk.gallery is None
        if trunk.gallery is not None:
            others = bilinear_embeddings(trunk.gallery, matrix, normalization)[1]
        labels = trunk.query_labels if exclude_same_row else trunk.gallery_labels
        results[mode] = retrieval.evaluate_retrieval(
            queries, trunk.query_labels, others, labels, similarity="inner_product", exclude_same_row=exclude_same_row
        )
    return results


def table(rows: Sequence[Refinement], title: str, notes: Sequence[str]) -> reports.Table:
    """Tabulate matrices with metrics in per cent, means of runs and draws."""
    header = ["M'", "rank", "trace", "||M'||_F", "trace/||M'||_F", "smallest eigenvalue"]
    header += [f"{metric} {mode}" for mode in MODES for metric in METRICS]
    lines = []
    for row in rows:
        of = row.properties
        matrix = [of.trace, of.frobenius_norm, of.trace / of.frobenius_norm if of.frobenius_norm else 0.0]
        cells = [str(of.rank), *(f"{value:.4g}" for value in matrix), f"{of.smallest_eigenvalue:.2g}"]
        cells += [f"{100 * np.mean(row.scores[mode][metric]):.2f}" for mode in MODES for metric in METRICS]
        lines.append([row.label, *cells])
    return reports.Table(title, header, lines, notes)


def notes_on(trunk: Trunk, draws: int, num_runs: int = 1) -> list[str]:
    """Explain the table; quote the paper for this loss and data set."""
    channels, dim = trunk.neck.shape
    controls = (
        f"The identity ranks {channels} dimensions, the trained neck {dim}: only PCA and random axes are identities of "
        "the embedding's own size. PCA is fitted on the images that the run learnt from."
    )
    if dim >= channels:
        controls = (
            f"The trunk has {channels} dimensions and the embedding {dim}: the neck leaves none out, and PCA or random "
            "axes of the embedding's size would be the identity."
        )
    notes = [
        controls,
        "A negative smallest eigenvalue: M' is no metric, and principle 1 (a smaller trace) says nothing of it.",
    ]
    if draws > 1:
        notes.append(f"D(r), R(r) and random axes: mean of {draws} draws; the picture shows their range.")
    if num_runs > 1:
        notes.append(
            f"Mean of {num_runs} runs (folds and repeats); rank, trace and norms are of the first one's matrix."
        )
    config = trunk.config
    printed = []
    for name, suffix, dimensions in _PRINTED_ROWS:
        row = _PRINTED.get(config.loss, "") + suffix
        place = ("PR-1", config.dataset, row, dimensions)
        values = [reports.published_value(*place, _PRINTED_METRICS[metric]) for metric in METRICS]
        known = [value for value in values if value is not None]
        if len(known) == len(values):
            printed.append(f"{name} " + " / ".join(f"{value.value:.2f}" for value in known))
    if printed:
        notes.append(
            f"The paper prints for {_PRINTED[config.loss]} on {config.dataset} ({' / '.join(METRICS)}; BN-Inception, "
            f"mean of four folds): {'; '.join(printed)}."
        )
    return notes


def draw(rows: Sequence[Refinement], folder: pathlib.Path, title: str) -> list[pathlib.Path]:
    """Draw D(r) and R(r) over r, one picture per metric and mode.

    Rows without an r are level lines. Fewer than two ratios give no picture.
    """
    ratios = sorted({row.ratio for row in rows if row.ratio is not None})
    if len(ratios) < 2:
        return []
    paths = []
    for mode, metric in itertools.product(MODES, DRAWN):
        series: dict[str, list[SweepValue]] = {}
        for row in rows:
            values = row.scores[mode][metric]
            places = [check_given("ratio", row.ratio)] if row.restraint else [ratios[0], ratios[-1]]
            points = [
                SweepValue(place, float(np.mean(values)), min(values), max(values), "range of draws")
                for place in places
            ]
            series.setdefault(f"{row.restraint}(r)" if row.restraint else row.label, []).extend(points)
        paths.append(folder / f"posterior_refinement_{metric}_{mode.replace(' ', '_')}.png")
        sweep_lines(series, paths[-1], x_label="r", y_label=f"{metric} (%)", title=f"{title}, {mode}")
    return paths


def write_report(trunk: Trunk, rows: Sequence[Refinement], folder: pathlib.Path, draws: int, num_runs: int = 1) -> str:
    """Write `posterior_refinement.md`, `.csv`, `.json` and pictures; return the terminal's text."""
    title = f"Posterior refinement of {trunk.config.name} on {trunk.config.dataset}"
    title += f", mean of {num_runs} runs" if num_runs > 1 else ""
    name = "posterior_refinement"
    text = table(rows, title, notes_on(trunk, draws, num_runs)).write(folder, name)
    stored = [{**row._asdict(), "properties": row.properties._asdict()} for row in rows]
    for row in stored:
        del row["class_sums"]
    write_json(folder / f"{name}.json", {"rows": stored})
    pictures = draw(rows, folder, title)
    return "\n".join([text, *(f"Figure: {path}" for path in pictures)])


def kept(run: Row, rows: Sequence[Refinement], draws: int) -> Row:
    """Add matrices with figures, and class sums `[matrices, classes]`, to a run's row."""
    matrices = [
        {
            "label": row.label,
            **row.properties._asdict(),
            "scores": {
                mode: {metric: round(float(np.mean(row.scores[mode][metric])), _DIGITS) for metric in METRICS}
                for mode in MODES
            },
        }
        for row in rows
    ]
    sums = {name: np.array([row.class_sums[of] for row in rows], np.float32) for of, name in KEPT_SUMS.items()}
    return run.with_extras({KEPT: {"draws": draws, "matrices": matrices}}, sums)


def runs_in(folder: pathlib.Path) -> list[pathlib.Path]:
    """Return a run's folder, or its method's finished runs, in order."""
    if (folder / "config.json").exists():
        return [folder]
    return [row.folder for row in collect_method(folder) if row.is_finished] or [folder]
