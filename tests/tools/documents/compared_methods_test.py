"""Differences in sentences are those of the table whose command trained the methods."""

import pytest

from experiments import reports
from experiments.rows.fair_rows import MINUS, table_rows
from experiments.rows.store import StudyRows
from tools.documents import compared_methods
from tools.documents.builders import text_of
from tools.documents.compared_methods import baselines_of, difference_in_table
from tools.documents.marked_blocks import Value


def study_of(recorded, *commands):
    study = StudyRows(recorded)
    for place, row in enumerate(study.rows):
        row["command"] = commands[place % len(commands)] if commands else None
    return study


def test_a_sentence_says_what_the_table_says(recorded, monkeypatch):
    study = study_of(recorded, "python -m experiments.table --id=5.1 --dataset=glyphs --run")
    (row,) = (row for row in table_rows(study, baselines_of(study, "5.1")) if row.method == "pnca+gsp")
    expected = reports.cell_text(row.cells[MINUS, "MAP@R"])
    assert difference_in_table(study, "pnca+gsp", "pnca+gap") == expected
    # Where others stand in the table, its intervals are wider or narrower than those of the two alone.
    pooled = expected._replace(interval="[1.00, 2.00]")
    monkeypatch.setattr(compared_methods.reports, "cell_text", lambda cell: pooled)
    assert text_of(Value("tiny", "pnca+gsp", "minus pnca+gap interval", ""), study) == "[1.00, 2.00]"


@pytest.mark.parametrize(
    "commands",
    [
        (),
        ("python -m experiments.fair_eval --dataset=glyphs",),
        ("python -m experiments.table --id=5.1", "python -m experiments.table --id=losses"),
        ("python -m experiments.table --id=unknown",),
    ],
)
def test_runs_of_no_table_or_of_several_are_compared_alone(commands, recorded):
    assert difference_in_table(study_of(recorded, *commands), "pnca+gsp", "pnca+gap") is None


def test_a_table_that_compares_the_method_with_another_says_nothing(recorded):
    study = study_of(recorded, "python -m experiments.table --id=5.1")
    assert difference_in_table(study, "pnca+gap", "pnca+gsp") is None
    assert difference_in_table(study, "c1+gap", "pnca+gap") is None
