"""Tables of the documents, from rows, and the line below them."""

import dataclasses
import re

import pytest

from common.errors import InvalidInput
from experiments.protocols.diagnostics import Point, correlation_table
from experiments.rows.fair_rows import method_difference
from experiments.rows.rows import row_id
from experiments.rows.store import StudyRows
from experiments.settings import build
from experiments.settings.recipes import resolve
from tools.documents.provenance import provenance
from tools.documents.tables import (
    best_steps,
    deployed_models,
    diagnostic_means,
    diagnostics,
    fair_summary,
    fair_table,
    feature_slices,
    loss_listing,
    markdown_of,
    trials,
)

RHO = {"pnca+gap": 0.3, "pnca+gsp": 0.2, "c1+gap": 0.1}


def lines_of(text):
    return [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]


def test_a_fair_table_has_complete_methods_their_difference_and_its_origin(recorded):
    text = markdown_of(fair_table, StudyRows(recorded), table="5.1")
    lines = text.splitlines()
    assert lines[0].startswith("| method | P@1 | MAP@R | MAP@R, 16-D | compared with | difference, MAP@R |")
    assert [line.split(" | ")[0] for line in lines[2:4]] == ["| `pnca`", "| `pnca+gsp`"]
    assert " | `pnca` | +" in lines[3]
    assert "MAP@R 12.50 and P@1 25.00" in text
    assert "not in the table: `c1`, " in text
    assert "<sub>From rows: `python -m experiments.fair_eval`; 4 runs; " in text


def test_a_fair_table_counts_the_runs_of_ccp_that_never_left_the_loss(recorded):
    study = StudyRows(recorded)
    assert "no projection problem" not in markdown_of(fair_table, study, table="5.1")
    for row in study.rows:
        row["extras"] = {"problems": [{}] if row.get("fold") == 0 else []} if row["label"] == "pnca+gsp" else {}
    note = "`pnca+gsp`: no projection problem began in 1 of 2 runs, which trained with the loss alone."
    assert note in markdown_of(fair_table, study, table="5.1")


def test_a_method_without_every_fold_is_left_out(recorded):
    study = StudyRows(recorded)
    study._scored = {
        key: of for key, of in study._scored.items() if (of.row["label"], of.row.get("fold")) != ("pnca+gsp", 1)
    }
    text = markdown_of(fair_table, study, table="5.1")
    assert "| `pnca+gsp` |" not in text
    assert "`pnca+gsp`" in text.split("not in the table: ")[1]


def test_trials_are_those_that_the_rows_keep(recorded):
    study = StudyRows(recorded)
    with pytest.raises(InvalidInput, match="has no trials: expected rows of `experiments.table --id=warm`"):
        markdown_of(trials, study)
    tried = [
        {"settings": {"learning_rate": 1e-4, "smoothing": 5.0}, "validation": 0.5, "chosen": True},
        {"settings": {"learning_rate": 1e-3, "smoothing": 5.0}, "validation": 0.25, "chosen": False},
    ]
    for row in study.rows:
        row["dataset"], row["configuration"] = "glyph_scripts", {"budget": "demo", "weights": "glyphs_latin.npz"}
        row["extras"] = {"trials": tried} if row["label"] == "pnca+gsp" else {}
    lines = trials(study)[0].as_markdown().splitlines()
    assert lines[2] == "| pnca+gsp | learning_rate 0.0001, smoothing 5 | 50.00 | chosen |"
    assert lines[3] == "| pnca+gsp | learning_rate 0.001, smoothing 5 | 25.00 |  |"


def test_a_summary_has_single_and_concatenated_figures(recorded):
    lines = markdown_of(fair_summary, StudyRows(recorded), methods="pnca+gap, pnca+gsp").splitlines()
    assert lines[2] == "| untrained backbone | 25.00 | 12.50 | - | - |"
    assert len(lines[3].split(" | ")) == 5


def test_what_was_not_recorded_is_said(recorded):
    row = StudyRows(recorded).rows[0]
    old = {
        **row,
        "command": None,
        "environment": {**dict.fromkeys(row["environment"]), "cpu": "Z80", "tensorflow": "2"},
    }
    text = provenance([old])
    assert "command not recorded; 1 run; commit not recorded; Z80 (vector instructions not recorded)" in text
    new = {**row, "environment": {**row["environment"], "commit": "abc", "vector_instructions": ["avx", "avx2"]}}
    assert "as many threads as TensorFlow chooses" in provenance(
        [{**new, "environment": {**new["environment"], "threads": None}}]
    )
    assert "commit abc; " in provenance([new])
    assert "2 runs; commit abc (1 not recorded); " in provenance([new, old])
    assert "(AVX2); 3 threads" in provenance([{**new, "environment": {**new["environment"], "threads": 3}}])


def test_models_to_deploy_are_the_folds_their_concatenation_and_the_final_one(recorded):
    study = StudyRows(recorded)
    lines = markdown_of(deployed_models, study, folds="pnca+gap", final="pnca+gsp").splitlines()
    assert [line.split(" | ")[0] for line in lines[2:7]] == [
        "| fold 0",
        "| fold 1",
        "| mean of the 2 folds",
        "| concatenation of the 2",
        "| final, all training classes",
    ]
    singles = [row for row in study.rows if row["label"] == "pnca+gap" and row["kind"] == "training"]
    first = next(row for row in singles if row["fold"] == 0)
    stated = float(lines[2].split(" | ")[4].split()[0])
    assert stated == pytest.approx(100 * first["test"]["MAP@R"], abs=0.006)


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
    text = markdown_of(diagnostics, study)
    lines = lines_of(text)
    assert lines[0] == ["diagnostic", "range", "MAP@R", "P@1"]
    assert lines[2:] == expected.rows
    assert [line[0] for line in lines[2:]] == ["rho", "uniformity"]
    assert "over 6 runs of 3 methods" in text
    assert "; 6 runs; " in text


def test_methods_with_more_repeats_than_others_count_alike(recorded):
    study = diagnosed(recorded)
    before = lines_of(markdown_of(diagnostics, study))
    for scored in [of for of in study._scored.values() if of.row["label"] == "pnca+gsp"]:
        again = {**scored.row, "repeat": 1, "extras": {"diagnostics": {"uniformity": 5.0, "rho": 5.0}}}
        study._scored[row_id(again)] = dataclasses.replace(scored, row=again)
    text = markdown_of(diagnostics, study)
    assert lines_of(text) == before
    assert "2 runs of repeats that not all methods have are left out." in text


def test_diagnostics_need_rows_that_keep_them_and_one_data_set(recorded):
    study = diagnosed(recorded)
    study.rows[0]["dataset"] = "cars196"
    with pytest.raises(InvalidInput, match="rows of cars196, glyphs: expected those of one data set"):
        diagnostics(study)
    study.rows[1]["extras"] = {}
    with pytest.raises(InvalidInput, match="1 of 6 runs have no diagnostics"):
        diagnostics(study)


def test_diagnostics_of_a_method_are_the_mean_and_the_range_of_its_runs(recorded):
    study = diagnosed(recorded)
    arguments = {"methods": "pnca+gsp, pnca+gap", "names": "rho, uniformity"}
    lines = lines_of(markdown_of(diagnostic_means, study, **arguments))
    assert lines[0] == ["method", "rho", "uniformity"]
    assert lines[2] == ["`pnca+gsp`", "0.205 (0.200 to 0.210)", "-0.205 (-0.210 to -0.200)"]
    assert lines[3][0] == "`pnca`"
    for name, value in (("methods", "c2+gap"), ("names", "beauty"), ("names", "rho@2")):
        with pytest.raises(InvalidInput, match=re.escape(f"received '{value}'")):
            diagnostic_means(study, **{**arguments, name: value})


def test_features_have_a_line_each_and_all_together_one(recorded):
    study = StudyRows(recorded)
    with pytest.raises(InvalidInput, match="has no runs with several features"):
        markdown_of(feature_slices, study)
    figures = {"dim": 4, "P@1": 0.5, "MAP@R": 0.25, "rho": 0.1, "pi_intra": 0.2, "pi_inter": 0.3}
    rows = [row for row in study.rows if row["label"] == "pnca+gap" and row["kind"] == "training"]
    for place, row in enumerate(rows):
        of_shared = {**figures, "MAP@R": 0.25 + 0.1 * place}
        row["extras"] = {"features": {"concatenated": {**figures, "dim": 8}, "shared": of_shared, "disc": figures}}
    lines = lines_of(markdown_of(feature_slices, study))
    assert lines[0] == ["method, feature", "runs", "dim", "P@1", "MAP@R", "rho", "pi_intra", "pi_inter"]
    assert [line[0] for line in lines[2:]] == [f"`pnca`, {name}" for name in ("disc", "shared", "concatenated")]
    assert "groups" not in markdown_of(feature_slices, study)
    for place, row in enumerate(rows):
        row["extras"]["features"]["groups"] = {**figures, "groups": 3, "classes_per_group": 2.0 + place}
    told = f"`pnca`: images of 3 groups, each of {2 + sum(range(len(rows))) / len(rows):.1f} classes (means)."
    assert told in markdown_of(feature_slices, study)
    mean = 25 + 10 * sum(range(len(rows))) / len(rows)
    assert lines[3][1:] == [str(len(rows)), "4", "50.00", f"{mean:.2f}", "0.100", "0.200", "0.300"]


def test_steps_to_the_best_are_compared_with_the_loss_alone(recorded):
    study = StudyRows(recorded)
    steps = {("pnca+gap", 0): 100, ("pnca+gap", 1): 300, ("pnca+gsp", 0): 400, ("pnca+gsp", 1): 600}
    for row in study.rows:
        row["label"] = row["label"].replace("pnca+gsp", "pnca+ccp+gap")
        if row["kind"] == "training":
            row["best_step"] = steps[row["label"].replace("pnca+ccp+gap", "pnca+gsp"), row["fold"]]
            row["steps"] = row["configuration"]["max_steps"] - row["fold"]
    lines = best_steps(study, "pnca+gap, pnca+ccp+gap")[0].rows
    assert lines == [
        ["pnca+gap", "200", "100 to 300", "-", "1 of 2"],
        ["pnca+ccp+gap", "500", "400 to 600", "+150 %", "1 of 2"],
    ]
    with pytest.raises(InvalidInput, match="Invalid method"):
        best_steps(study, "c1+gap")


def test_every_loss_has_a_row_with_the_class_that_it_builds(capsys):
    loss_listing()
    rows = dict(line.removeprefix("| `").split("` | ", 1) for line in capsys.readouterr().out.splitlines()[2:])
    assert sorted(rows) == sorted(build.LOSSES)
    for name, text in rows.items():
        built = build.build_loss(resolve("glyphs", name, "gap", "thesis", "demo", {}), 2)
        assert text.split("`")[1] == type(built).__name__
    assert rows["angular"] == "`WeightedSumLoss` of `NPairLoss` and `AngularLoss` | pairs |"
    assert [name for name, text in rows.items() if text.endswith("| proxies |")] == list(rows)[-5:]


def test_a_difference_is_over_the_repeats_that_both_have(recorded):
    study = StudyRows(recorded)
    before = method_difference(study, "pnca+gsp", "pnca+gap")
    again = [dataclasses.replace(of, row={**of.row, "repeat": 1}) for of in study._scored.values()]
    for of in again:
        if of.row["kind"] == "training" and of.row["label"] == "pnca+gsp":
            study._scored[row_id(of.row)] = of
    assert method_difference(study, "pnca+gsp", "pnca+gap") == before
