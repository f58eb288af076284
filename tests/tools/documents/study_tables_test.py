"""Tables and pictures of sweeps and of studies whose rows say what they are compared with."""

import pytest

from common.errors import InvalidInput
from experiments.rows.scores import scores_of_trainings, training_scores
from experiments.rows.store import StudyRows
from experiments.studies import pooling_comparison
from tools.documents import study_tables
from tools.documents.builders import markdown_of
from tools.documents.marked_blocks import Block
from tools.documents.study_tables import (
    best_steps,
    compared,
    draw_recorded_poolings,
    draw_recorded_sweep,
    draw_sweep_differences,
    held_against,
    sweep,
)


def lines_of(table):
    return [line.strip("| ").split(" | ") for line in table.as_markdown().splitlines() if line.startswith("|")]


def swept(recorded, measured_on):
    study = StudyRows(recorded)
    axes = {"x_label": "batch size", "held_out": measured_on, "logarithmic": True}
    places = {"pnca+gap": {"place": 1, "series": "pnca", "x": 64}, "pnca+gsp": {"place": 0, "series": "pnca", "x": 8}}
    for row in study.rows:
        row["extras"] = {"sweep": {**places[row["label"]], **axes}}
    return study


def test_a_sweep_has_its_points_in_the_order_of_the_study(recorded, tmp_path):
    study = swept(recorded, "test")
    lines = lines_of(sweep(study)[0])
    assert lines[0] == ["method", "batch size", "test MAP@R (%)", "95 % interval", "runs"]
    assert [line[:2] for line in lines[2:]] == [["pnca", "8"], ["pnca", "64"]]
    assert lines[2][2] == f"{100 * training_scores(study, 'pnca+gsp').estimate('MAP@R').estimate:.2f}"
    assert lines[2][4] == "2"
    draw_recorded_sweep(study, tmp_path / "sweep.png", "title")
    assert (tmp_path / "sweep.png").stat().st_size > 5000


def test_differences_are_drawn_from_the_first_series_at_the_same_place(recorded, tmp_path, monkeypatch):
    study = swept(recorded, "test")
    for row in study.rows:
        row["extras"]["sweep"] |= {"series": row["label"], "x": 8}
    drawn = {}
    monkeypatch.setattr(study_tables, "sweep_lines", lambda lines, path, **labels: drawn.update(lines))
    draw_sweep_differences(study, tmp_path / "gap.png", "title")
    (((label, (value,)),)) = drawn.items()
    expected = scores_of_trainings(study, "pnca+gap").difference(scores_of_trainings(study, "pnca+gsp"), "MAP@R")
    assert (label, value.value, value.low) == ("pnca+gap minus pnca+gsp", expected.estimate, expected.low)


def test_a_sweep_of_validation_has_the_range_of_its_trainings(recorded):
    study = swept(recorded, "validation")
    best = [100 * row["validation"]["MAP@R"] for row in study.rows if row["label"] == "pnca+gap" and "fold" in row]
    (line,) = (line for line in lines_of(sweep(study)[0])[2:] if line[1] == "64")
    assert line[2] == f"{sum(best) / len(best):.2f}"
    assert line[3] == f"[{min(best):.2f}, {max(best):.2f}]"


def test_rows_of_two_sweeps_or_of_none_are_refused(recorded):
    study = swept(recorded, "test")
    next(row for row in study.rows if row["kind"] == "training")["extras"]["sweep"]["x_label"] = "lambda"
    with pytest.raises(InvalidInput, match="is no sweep: expected rows of one figure"):
        sweep(study)
    with pytest.raises(InvalidInput, match="is no sweep"):
        markdown_of(Block("sweep", {"study": "tiny"}, ""), StudyRows(recorded))


def test_a_method_stands_beside_what_its_rows_hold_it_against(recorded):
    study = StudyRows(recorded)
    with pytest.raises(InvalidInput, match="no row says what its method is compared with"):
        held_against(study)
    for row in study.rows:
        is_base = row["label"] == "pnca+gap"
        row["extras"] = {"place": int(not is_base), "held against": None if is_base else "pnca+gap"}
    lines = lines_of(held_against(study)[0])
    assert lines[2][0] == "pnca+gap"
    assert lines[2][3:] == ["-", "-", "-"]
    difference = training_scores(study, "pnca+gsp").difference(training_scores(study, "pnca+gap"), "MAP@R")
    assert lines[3][3] == "pnca+gap"
    assert lines[3][4].startswith(f"{100 * difference.estimate:+.2f}")


def test_a_document_says_what_it_compares(recorded):
    study = StudyRows(recorded)
    table, labels = compared(study, "pnca+gap | pnca+gsp minus pnca+gap")
    lines = lines_of(table)
    assert labels == ["pnca+gap", "pnca+gsp"]
    assert lines[2][3:] == ["-", "-", "-"]
    difference = training_scores(study, "pnca+gsp").difference(training_scores(study, "pnca+gap"), "MAP@R")
    assert lines[3][3] == "pnca+gap"
    assert lines[3][4].startswith(f"{100 * difference.estimate:+.2f}")
    with pytest.raises(InvalidInput, match="c2[+]gap"):
        compared(study, "pnca+gsp minus c2+gap")
    with pytest.raises(InvalidInput, match="a method stands there twice"):
        compared(study, "pnca+gsp | pnca+gsp minus pnca+gap")


def test_poolings_are_drawn_by_loss_from_rows(recorded, tmp_path, monkeypatch):
    study, drawn = StudyRows(recorded), {}
    monkeypatch.setattr(pooling_comparison.reports, "interval_bars", lambda groups, path, title: drawn.update(groups))
    draw_recorded_poolings(study, tmp_path / "poolings.png", "Poolings")
    scores = {name: training_scores(study, f"pnca+{name}").estimate("MAP@R") for name in ("gap", "gsp")}
    best_first = sorted(scores, key=lambda name: -scores[name].estimate)
    assert list(drawn) == ["pnca"]
    assert list(drawn["pnca"]) == best_first
    assert {name: of.estimate for name, of in drawn["pnca"].items()} == {n: s.estimate for n, s in scores.items()}


def test_steps_to_the_best_are_compared_with_the_loss_alone(recorded):
    study = StudyRows(recorded)
    steps = {("pnca+gap", 0): 100, ("pnca+gap", 1): 300, ("pnca+gsp", 0): 400, ("pnca+gsp", 1): 600}
    for row in study.rows:
        row["label"] = row["label"].replace("pnca+gsp", "pnca+ccp+gap")
        if row["kind"] == "training":
            row["best_step"] = steps[row["label"].replace("pnca+ccp+gap", "pnca+gsp"), row["fold"]]
            row["steps"] = row["configuration"]["max_steps"] - row["fold"]
    lines = lines_of(best_steps(study, "pnca+gap, pnca+ccp+gap")[0])[2:]
    assert lines == [
        ["pnca+gap", "200", "100 to 300", "-", "1 of 2"],
        ["pnca+ccp+gap", "500", "400 to 600", "+150 %", "1 of 2"],
    ]
    with pytest.raises(InvalidInput, match="Invalid method"):
        best_steps(study, "c1+gap")
