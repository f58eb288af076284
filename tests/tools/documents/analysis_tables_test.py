"""Tables of diagnostics and of refined metric matrices, from rows."""

import dataclasses
import re

import numpy as np
import pytest

from common.errors import InvalidInput
from experiments.protocols.diagnostics import Point, correlation_table
from experiments.rows.rows import row_id
from experiments.rows.store import StudyRows
from tools.documents.analysis_tables import refined_metrics
from tools.documents.builders import markdown_of
from tools.documents.marked_blocks import Block

RHO = {"pnca+gap": 0.3, "pnca+gsp": 0.2, "c1+gap": 0.1}
TRAINED, OTHER = "as trained, 4 of 8 dimensions", "identity, all 8"


def lines_of(text):
    return [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]


def diagnosed(recorded):
    """The recorded study with a third method, whose rows are copies, and diagnostics of each run."""
    study = StudyRows(recorded)
    for key, scored in list(study._scored.items()):
        row = scored.row
        if row["label"] == "pnca+gap" and row["kind"] == "training":
            copy = {**row, "label": "c1+gap", "config_hash": "c" * 10, "test": {**row["test"], "MAP@R": 0.05}}
            study._scored[row_id(copy)] = dataclasses.replace(scored, row=copy)
        if row["kind"] == "collection":
            del study._scored[key]
    for row in study.rows:
        rho = RHO[row["label"]] + 0.01 * row["fold"]
        row["extras"] = {"diagnostics": {"uniformity": -rho, "rho": rho, "warning": "one point"}}
    return study


def test_diagnostics_of_rows_correlate_as_those_of_runs(recorded):
    study = diagnosed(recorded)
    points = [
        Point(
            row["config_hash"],
            row["fold"],
            row["label"],
            {metric: row["test"][metric] for metric in ("MAP@R", "P@1")},
            {"rho": row["extras"]["diagnostics"]["rho"], "uniformity": row["extras"]["diagnostics"]["uniformity"]},
        )
        for row in study.rows
    ]
    expected = correlation_table(points, "glyphs")
    text = markdown_of(Block("diagnostics", {"study": "tiny"}, ""), study)
    lines = lines_of(text)
    assert lines[0] == ["diagnostic", "range", "MAP@R", "P@1"]
    assert lines[2:] == expected.rows
    assert [line[0] for line in lines[2:]] == ["rho", "uniformity"]
    assert "over 6 runs of 3 methods" in text
    assert "; 6 runs; " in text


def test_methods_with_more_repeats_than_others_count_alike(recorded):
    study = diagnosed(recorded)
    before = lines_of(markdown_of(Block("diagnostics", {"study": "tiny"}, ""), study))
    for scored in [of for of in study._scored.values() if of.row["label"] == "pnca+gsp"]:
        again = {**scored.row, "repeat": 1, "extras": {"diagnostics": {"uniformity": 5.0, "rho": 5.0}}}
        study._scored[row_id(again)] = dataclasses.replace(scored, row=again)
    text = markdown_of(Block("diagnostics", {"study": "tiny"}, ""), study)
    assert lines_of(text) == before
    assert "2 runs of repeats that not all methods have are left out." in text


def test_diagnostics_need_rows_that_keep_them_and_one_data_set(recorded):
    study = diagnosed(recorded)
    block = Block("diagnostics", {"study": "tiny"}, "")
    study.rows[0]["dataset"] = "cars196"
    with pytest.raises(InvalidInput, match="rows of cars196, glyphs: expected those of one data set"):
        markdown_of(block, study)
    study.rows[1]["extras"] = {}
    with pytest.raises(InvalidInput, match="1 of 6 runs have no diagnostics"):
        markdown_of(block, study)


def test_diagnostics_of_a_method_are_the_mean_and_the_range_of_its_runs(recorded):
    study = diagnosed(recorded)
    arguments = {"study": "tiny", "methods": "pnca+gsp, pnca+gap", "names": "rho, uniformity"}
    lines = lines_of(markdown_of(Block("diagnostic_means", arguments, ""), study))
    assert lines[0] == ["method", "rho", "uniformity"]
    assert lines[2] == ["`pnca+gsp`", "0.205 (0.200 to 0.210)", "-0.205 (-0.210 to -0.200)"]
    assert lines[3][0] == "`pnca`"
    for name, value in (("methods", "c2+gap"), ("names", "beauty"), ("names", "rho@2")):
        with pytest.raises(InvalidInput, match=re.escape(f"received '{value}'")):
            markdown_of(Block("diagnostic_means", {**arguments, name: value}, ""), study)


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
    text = markdown_of(Block("refined_metrics", {"study": "tiny"}, ""), study)
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
    with pytest.raises(InvalidInput, match="refined by different matrices or draws"):
        refined_metrics(study)
    with pytest.raises(InvalidInput, match=r"4 of 4 runs have no posterior_refinement.*--record"):
        refined_metrics(StudyRows(recorded))


def test_features_have_a_line_each_and_all_together_one(recorded):
    study = StudyRows(recorded)
    block = Block("feature_slices", {"study": "tiny"}, "")
    with pytest.raises(InvalidInput, match="has no runs with several features"):
        markdown_of(block, study)
    figures = {"dim": 4, "P@1": 0.5, "MAP@R": 0.25, "rho": 0.1, "pi_intra": 0.2, "pi_inter": 0.3}
    rows = [row for row in study.rows if row["label"] == "pnca+gap" and row["kind"] == "training"]
    for place, row in enumerate(rows):
        of_shared = {**figures, "MAP@R": 0.25 + 0.1 * place}
        row["extras"] = {"features": {"concatenated": {**figures, "dim": 8}, "shared": of_shared, "disc": figures}}
    lines = lines_of(markdown_of(block, study))
    assert lines[0] == ["method, feature", "runs", "dim", "P@1", "MAP@R", "rho", "pi_intra", "pi_inter"]
    assert [line[0] for line in lines[2:]] == [f"`pnca`, {name}" for name in ("disc", "shared", "concatenated")]
    assert "groups" not in markdown_of(block, study)
    for place, row in enumerate(rows):
        row["extras"]["features"]["groups"] = {**figures, "groups": 3, "classes_per_group": 2.0 + place}
    told = f"`pnca`: images of 3 groups, each of {2 + sum(range(len(rows))) / len(rows):.1f} classes (means)."
    assert told in markdown_of(block, study)
    mean = 25 + 10 * sum(range(len(rows))) / len(rows)
    assert lines[3][1:] == [str(len(rows)), "4", "50.00", f"{mean:.2f}", "0.100", "0.200", "0.300"]
