"""Tables whose rows are missing or differ; `documents_test` has all tables of the rows in results/."""

import dataclasses
import re

import pytest

from common.errors import InvalidInput
from experiments.reports.scores import method_difference
from experiments.rows.rows import row_id
from experiments.rows.store import StudyRows
from tools.documents.comparisons import held_against, refined_metrics
from tools.documents.provenance import provenance
from tools.documents.tables import diagnostic_means, diagnostics, fair_table, markdown_of

RHO = {"pnca+gap": 0.3, "pnca+gsp": 0.2, "c1+gap": 0.1}


def lines_of(text):
    return [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]


def test_a_method_without_every_fold_is_left_out(recorded):
    study = StudyRows(recorded)
    study._rows = {key: of for key, of in study._rows.items() if (of["label"], of.get("fold")) != ("pnca+gsp", 1)}
    text = markdown_of(fair_table, study, table="5.1")
    assert "| `pnca+gsp` |" not in text
    assert "`pnca+gsp`" in text.split("not in the table: ")[1]


def test_what_was_not_recorded_is_said(recorded):
    row = StudyRows(recorded).rows[0]
    old = {**row, "command": None, "environment": {"commit": None}}
    new = {**row, "environment": {"commit": "abc"}}
    assert "command not recorded; 1 run; commit not recorded." in provenance([old])
    assert "; 1 run; commit abc." in provenance([new])
    assert "; 2 runs; commit abc (1 not recorded)." in provenance([new, old])


def test_several_commands_are_their_common_words_and_the_flags_that_differ(recorded):
    row = StudyRows(recorded).rows[0]
    rows = [{**row, "command": f"python -m table --id=7 --loss={loss} --dataset=a"} for loss in "ab"]
    assert "From rows: 2 commands `python -m table --id=7 --dataset=a` that differ in `--loss`; 2 runs" in provenance(
        rows
    )
    assert "From rows: `python -m table --id=7 --loss=a --dataset=a`; 1 run" in provenance(rows[:1])
    other = [*rows, {**row, "command": "python -m figure --id=7"}]
    assert "From rows: `python -m figure --id=7`, 2 commands `python -m table" in provenance(other)


def diagnosed(recorded):
    """The recorded study with a third method, whose rows are copies, and diagnostics of each run."""
    study = StudyRows(recorded)
    for key, row in list(study._rows.items()):
        if row["label"] == "pnca+gap" and row["kind"] == "training":
            copy = {**row, "label": "c1+gap", "config_hash": "c" * 10, "test": {**row["test"], "MAP@R": 0.05}}
            study._rows[row_id(copy)] = dataclasses.replace(row, json=copy)
        if row["kind"] == "collection":
            del study._rows[key]
    for row in study.rows:
        rho = RHO[row["label"]] + 0.01 * row["fold"]
        row.json["extras"] = {"diagnostics": {"uniformity": -rho, "rho": rho, "warning": "one point"}}
    return study


def test_methods_with_more_repeats_than_others_count_alike(recorded):
    study = diagnosed(recorded)
    before = lines_of(markdown_of(diagnostics, study))
    for scored in [of for of in study._rows.values() if of["label"] == "pnca+gsp"]:
        again = {**scored, "repeat": 1, "extras": {"diagnostics": {"uniformity": 5.0, "rho": 5.0}}}
        study._rows[row_id(again)] = dataclasses.replace(scored, json=again)
    text = markdown_of(diagnostics, study)
    assert lines_of(text) == before
    assert "2 runs of repeats that not all methods have are left out." in text


def test_a_difference_is_over_the_repeats_that_both_have(recorded):
    study = StudyRows(recorded)
    before = method_difference(study, "pnca+gsp", "pnca+gap")
    again = [dataclasses.replace(of, json={**of, "repeat": 1}) for of in study._rows.values()]
    for of in again:
        if of["kind"] == "training" and of["label"] == "pnca+gsp":
            study._rows[row_id(of)] = of
    assert method_difference(study, "pnca+gsp", "pnca+gap") == before


def with_other_draws(study):
    """One of two refined runs has a matrix of fewer draws."""
    for row in study.rows:
        matrix = {"label": "identity", "rank": 4, "scores": {}}
        row.json["extras"] = {"posterior_refinement": {"draws": 1 + row.get("fold", 0), "matrices": [matrix]}}
    return study


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (held_against, "no row says what its method is compared with"),
        (refined_metrics, "runs without refined matrices.*--record"),
        (lambda study: refined_metrics(with_other_draws(study)), "or refined by different ones"),
    ],
)
def test_a_table_that_the_rows_do_not_have_is_refused(table, message, recorded):
    with pytest.raises(InvalidInput, match=message):
        table(StudyRows(recorded))


def test_diagnostics_are_of_one_data_set_and_of_what_was_measured(recorded):
    study = diagnosed(recorded)
    for methods, names, value in (("c2+gap", "rho", "c2+gap"), ("pnca+gap", "beauty", "beauty")):
        with pytest.raises(InvalidInput, match=re.escape(f"received '{value}'")):
            diagnostic_means(study, methods, names)
    study.rows[0].json["dataset"] = "cars196"
    with pytest.raises(InvalidInput, match="rows of cars196, glyphs: expected those of one data set"):
        diagnostics(study)
    study.rows[1].json["extras"] = {}
    with pytest.raises(InvalidInput, match="1 of 6 runs have no diagnostics"):
        diagnostics(study)
