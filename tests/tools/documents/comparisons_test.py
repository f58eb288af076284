"""Tables of differences between methods and between metric matrices, from rows."""

import dataclasses

import numpy as np
import pytest

from common.errors import InvalidInput
from experiments.rows.scores import training_scores
from experiments.rows.store import StudyRows
from tests.tools.documents.tables_test import lines_of
from tools.documents.comparisons import compared, held_against, refined_metrics
from tools.documents.tables import markdown_of

TRAINED, OTHER = "as trained, 4 of 8 dimensions", "identity, all 8"


def test_a_method_stands_beside_what_its_rows_hold_it_against(recorded):
    study = StudyRows(recorded)
    with pytest.raises(InvalidInput, match="no row says what its method is compared with"):
        held_against(study)
    for row in study.rows:
        is_base = row["label"] == "pnca+gap"
        row["extras"] = {"place": int(not is_base), "held against": None if is_base else "pnca+gap"}
    lines = lines_of(held_against(study)[0].as_markdown())
    assert lines[2][0] == "pnca+gap"
    assert lines[2][3:] == ["-", "-", "-"]
    difference = training_scores(study, "pnca+gsp").difference(training_scores(study, "pnca+gap"), "MAP@R")
    assert lines[3][3] == "pnca+gap"
    assert lines[3][4].startswith(f"{100 * difference.estimate:+.2f}")


def test_a_document_says_what_it_compares(recorded):
    study = StudyRows(recorded)
    table, labels = compared(study, "pnca+gap | pnca+gsp minus pnca+gap")
    lines = lines_of(table.as_markdown())
    assert labels == ["pnca+gap", "pnca+gsp"]
    assert lines[2][3:] == ["-", "-", "-"]
    difference = training_scores(study, "pnca+gsp").difference(training_scores(study, "pnca+gap"), "MAP@R")
    assert lines[3][3] == "pnca+gap"
    assert lines[3][4].startswith(f"{100 * difference.estimate:+.2f}")
    with pytest.raises(InvalidInput, match="c2[+]gap"):
        compared(study, "pnca+gsp minus c2+gap")


def refined(recorded):
    """Both runs of one method with two matrices: the trained one, and one that ranks all queries of a class right."""
    study = StudyRows(recorded)
    study._scored = {key: of for key, of in study._scored.items() if of.row["label"] == "pnca+gap"}
    for key, scored in study._scored.items():
        if scored.row["kind"] == "collection":
            continue
        sums = {metric: np.stack([of, of]) for metric, of in scored.sums.items()}
        for of in sums.values():
            of[1, 0] = scored.counts[0]
        matrices = [
            {
                "label": label,
                **{
                    "trace": 2.0 + scored.row["fold"],
                    "frobenius_norm": 1.5,
                    "smallest_eigenvalue": eigenvalue,
                    "rank": 4,
                },
                "scores": {
                    mode: {"MAP@R": 0.125 * (1 + scored.row["fold"]), "P@1": 0.5, "P@R": 0.25}
                    for mode in ("normalised", "unit features", "as it is")
                },
            }
            for label, eigenvalue in ((TRAINED, -0.25), (OTHER, -2e-15))
        ]
        row = {**scored.row, "extras": {"posterior_refinement": {"draws": 3, "matrices": matrices}}}
        arrays = {f"refined {metric}": of for metric, of in sums.items()}
        study._scored[key] = dataclasses.replace(scored, row=row, arrays=arrays)
    return study


def test_matrices_are_compared_with_the_trained_one_over_all_runs(recorded):
    study = refined(recorded)
    text = markdown_of(refined_metrics, study)
    header, _, trained, other = lines_of(text)
    assert header[:5] == ["M'", "rank", "trace", "norm", "smallest eigenvalue"]
    assert header[5:9] == ["MAP@R, normalised", "minus trained", "P@1, normalised", "minus trained"]
    assert trained[:5] == [TRAINED, "4", "2.5", "1.5", "-0.25"]
    assert other[4] == "0"
    assert trained[6] == trained[8] == "-"
    rows = [row for row in study.rows if row["kind"] == "training"]
    assert trained[5].startswith(f"{100 * np.mean([row['test']['MAP@R'] for row in rows]):.2f} [")
    scored = [study.scored(row) for row in rows]
    for place, metric in ((6, "MAP@R"), (8, "P@1")):
        gains = [(of.counts[0] - of.sums[metric][0]) / of.counts.sum() for of in scored]
        assert other[place].startswith(f"{100 * np.mean(gains):+.2f}")
        assert "[" in other[place]
    assert header[9:] == ["unit features: MAP@R / P@1", "as it is: MAP@R / P@1"]
    assert other[9:] == ["18.75 / 50.00", "18.75 / 50.00"]
    assert "Mean of 2 runs; D(r), R(r) below 1 and random axes: of 3 draws per run." in text
    assert "Holm's correction for all 2 of this table" in text
    assert "detectable" not in text


def test_runs_that_were_not_refined_alike_are_refused(recorded):
    study = refined(recorded)
    rows = [row for row in study.rows if row["kind"] == "training"]
    rows[0]["extras"]["posterior_refinement"]["draws"] = 1
    with pytest.raises(InvalidInput, match="or refined by different ones"):
        refined_metrics(study)
    with pytest.raises(InvalidInput, match="runs without refined matrices.*--record"):
        refined_metrics(StudyRows(recorded))
