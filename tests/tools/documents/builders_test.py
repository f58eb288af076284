"""What blocks and values say of rows."""

import dataclasses

import pytest

from common.errors import InvalidInput
from experiments.rows.rows import row_id
from experiments.rows.store import StudyRows
from tools.documents.builders import markdown_of, text_of, trials
from tools.documents.marked_blocks import Block, Value
from tools.documents.pictures import PICTURES, digest_of, draw, stated_digest
from tools.documents.provenance import provenance


def test_a_fair_table_has_complete_methods_their_difference_and_its_origin(recorded):
    text = markdown_of(Block("fair_table", {"study": "tiny", "table": "5.1"}, ""), StudyRows(recorded))
    lines = text.splitlines()
    assert lines[0].startswith("| method | P@1 | MAP@R | MAP@R, 16-D | compared with | difference, MAP@R |")
    assert [line.split(" | ")[0] for line in lines[2:4]] == ["| `pnca`", "| `pnca+gsp`"]
    assert " | `pnca` | +" in lines[3]
    assert "MAP@R 12.50 and P@1 25.00" in text
    assert "not in the table: `c1`, " in text
    assert "<sub>From rows: `python -m experiments.fair_eval`; 4 runs; " in text


def test_a_fair_table_counts_the_runs_of_ccp_that_never_left_the_loss(recorded):
    study, block = StudyRows(recorded), Block("fair_table", {"study": "tiny", "table": "5.1"}, "")
    assert "no projection problem" not in markdown_of(block, study)
    for row in study.rows:
        row["extras"] = {"problems": [{}] if row.get("fold") == 0 else []} if row["label"] == "pnca+gsp" else {}
    note = "`pnca+gsp`: no projection problem began in 1 of 2 runs, which trained with the loss alone."
    assert note in markdown_of(block, study)


def test_a_method_without_every_fold_is_left_out(recorded):
    study = StudyRows(recorded)
    study._scored = {
        key: of for key, of in study._scored.items() if (of.row["label"], of.row.get("fold")) != ("pnca+gsp", 1)
    }
    text = markdown_of(Block("fair_table", {"study": "tiny", "table": "5.1"}, ""), study)
    assert "| `pnca+gsp` |" not in text
    assert "`pnca+gsp`" in text.split("not in the table: ")[1]


def test_trials_are_those_that_the_rows_keep(recorded):
    study = StudyRows(recorded)
    with pytest.raises(InvalidInput, match="has no trials: expected rows of `experiments.table --id=warm`"):
        markdown_of(Block("trials", {"study": "tiny"}, ""), study)
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
    block = Block("fair_summary", {"study": "tiny", "methods": "pnca+gap, pnca+gsp"}, "")
    lines = markdown_of(block, StudyRows(recorded)).splitlines()
    assert lines[2] == "| untrained backbone | 25.00 | 12.50 | - | - |"
    assert len(lines[3].split(" | ")) == 5


def test_a_difference_is_over_the_repeats_that_both_have(recorded):
    study, value = StudyRows(recorded), Value("tiny", "pnca+gsp", "minus pnca+gap", "")
    before = text_of(value, study)
    again = [dataclasses.replace(of, row={**of.row, "repeat": 1}) for of in study._scored.values()]
    for of in again:
        if of.row["kind"] == "training" and of.row["label"] == "pnca+gsp":
            study._scored[row_id(of.row)] = of
    assert text_of(Value("tiny", "pnca+gsp", "runs", ""), study) == "4"
    assert text_of(value, study) == before


def test_values_are_those_of_the_rows(recorded):
    study = StudyRows(recorded)
    rows = [row for row in study.rows if row["label"] == "pnca+gap"]
    mean = sum(row["test"]["MAP@R"] for row in rows if row["kind"] == "training") / 2

    def said(metric, label="pnca+gap"):
        return text_of(Value("tiny", label, metric, ""), study)

    assert said("MAP@R") == f"{100 * mean:.2f}"
    assert said("concatenated MAP@R") == f"{100 * rows[-1]['test']['MAP@R']:.2f}"
    assert said("untrained P@1") == "25.00"
    assert said("runs") == "2"
    assert said("minus pnca+gap", "pnca+gsp").startswith("+")
    assert said("minus pnca+gap interval", "pnca+gsp").startswith("[")
    for place, row in enumerate(rows[:2]):
        row["extras"]["position_perplexity"] = 0.5 + 0.25 * place
    assert said("extra position_perplexity") == "0.625"
    with pytest.raises(InvalidInput, match="received 'nothing'.*position_perplexity"):
        said("extra nothing")


@pytest.mark.parametrize(
    ("block", "phrase"),
    [
        (Block("no_table", {"study": "tiny"}, ""), "Invalid results block: received 'no_table'"),
        (Block("fair_table", {"study": "tiny"}, ""), "missing a required argument"),
        (Block("fair_table", {"study": "tiny", "table": "9.9"}, ""), "Invalid table"),
        (Block("seeds", {"study": "tiny", "color": "red"}, ""), "unexpected keyword argument"),
        (Block("fair_summary", {"study": "tiny", "methods": "c1"}, ""), "Invalid method"),
    ],
)
def test_what_no_builder_knows_is_refused(recorded, block, phrase):
    with pytest.raises(InvalidInput, match=phrase):
        markdown_of(block, StudyRows(recorded))


def test_unknown_methods_and_metrics_of_values_are_refused(recorded):
    for label, metric in (("c1", "MAP@R"), ("pnca+gap", "beauty"), ("pnca+gap", "minus c1")):
        with pytest.raises(InvalidInput):
            text_of(Value("tiny", label, metric, ""), StudyRows(recorded))


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


def test_a_picture_states_what_it_was_drawn_from(recorded, tmp_path):
    study = StudyRows(recorded)
    picture = PICTURES["docs/figures/table_5_1.png"]
    path = tmp_path / "bars.png"
    draw(picture, study, path)
    assert stated_digest(path) == digest_of(picture, study)
    first = study.scored(study.rows[0])
    study._scored[row_id(first.row)] = dataclasses.replace(first, row={**first.row, "steps": 1})
    assert stated_digest(path) != digest_of(picture, study)
    assert stated_digest(tmp_path / "missing.png") is None


def test_models_to_deploy_are_the_folds_their_concatenation_and_the_final_one(recorded):
    study = StudyRows(recorded)
    block = Block("deployed_models", {"study": "tiny", "folds": "pnca+gap", "final": "pnca+gsp"}, "")
    lines = markdown_of(block, study).splitlines()
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
