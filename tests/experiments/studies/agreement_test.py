"""`experiments.table --id=agreement` as a user runs it."""

import csv
import shutil

import pytest

from common.errors import InvalidInput
from experiments.rows.store import ROWS
from tests.command_line import check_clean_failure, run_here, run_study_here
from tests.experiments.rows.ranked_study import record_ranked

LOSSES = ("c1+gap", "c1+xbm+gap", "c1+ccp+gap", "c2+gap", "ms+gap", "triplet+gap", "pnca+gap", "panchor+gap")
NAMES = ("table_agreement", "table_agreement_signs")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkout") / "results"
    record_ranked(folder / "up", {label: 30 + place for place, label in enumerate(LOSSES)})
    record_ranked(folder / "down", {label: 40 - place for place, label in enumerate(LOSSES)})
    record_ranked(folder / "small", dict.fromkeys(LOSSES[:2], 30))
    return folder


def table(folder, name):
    with (folder / f"{name}.csv").open() as file:
        return list(csv.DictReader(file))


def test_tables_and_picture_of_two_studies_are_written(results, tmp_path, capsys):
    studies = f"--study={results / 'up'},{results / 'down'}"
    run_study_here("table", "--id=agreement", studies, f"--runs_dir={tmp_path}")
    shown = capsys.readouterr().out
    folder = tmp_path / "tables" / "agreement"
    expected = {f"{name}.{ending}" for name in NAMES for ending in ("md", "csv")} | {"table_agreement.png"}
    assert {path.name for path in folder.iterdir()} == expected
    assert f"Folder: {folder}" in shown
    rows = {row["benchmark: published table"]: row for row in table(folder, "table_agreement")}
    datasets = ("SOP", "In-shop", "CUB", "Cars196", "all")
    places = [f"{of}, {dataset}" for of in ("thesis 3.1", "thesis 5.1") for dataset in datasets]
    assert list(rows) == [f"{study}: {place}" for study in ("up", "down") for place in places]
    of_up, of_down = (float(rows[f"{study}: thesis 5.1, CUB"]["Spearman"].split()[0]) for study in ("up", "down"))
    assert of_up == -of_down
    assert "thesis 5.1, c1+ccp+gap - c1+gap" in shown
    for study in ("up", "down"):
        assert f"Verdict on {study} beside thesis 5.1 (8 methods): " in " ".join(shown.split())


def test_without_a_name_all_studies_that_can_be_compared_are(results, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(results.parent)
    run_study_here("table", "--id=agreement", f"--runs_dir={tmp_path}")
    shown = capsys.readouterr().out
    assert "up: thesis 5.1, SOP" in shown
    assert "down: thesis 5.1, SOP" in shown
    assert "small" not in shown


def test_wrong_studies_and_flags_are_named(results, tmp_path, monkeypatch):
    wrong = {
        (f"--study={results / 'small'}",): "small cannot be compared: received 2 methods",
        (f"--study={tmp_path / 'nowhere'}",): "nowhere cannot be compared: received no row of the fair protocol",
        ("--study=",): "Invalid --study: received an empty list",
        (f"--study={results / 'up'},{results / 'up'}/",): "more than once",
        (f"--study={results / 'up'}", "--repeats=2"): "--repeats would have no effect",
        (f"--study={results / 'up'}", "--run"): "--run would have no effect",
        (f"--study={results / 'up'}", "--dataset=sop"): "--dataset would have no effect",
    }
    for arguments, message in wrong.items():
        with pytest.raises(InvalidInput, match=message):
            run_study_here("table", "--id=agreement", *arguments, f"--runs_dir={tmp_path}")
    with pytest.raises(InvalidInput, match="--study would have no effect: only --id=agreement"):
        run_study_here("table", "--id=5.1", f"--study={results / 'up'}", f"--runs_dir={tmp_path}")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput, match=r"(?s)No recorded study can be compared.*results/<study>/rows.jsonl"):
        run_study_here("table", "--id=agreement", f"--runs_dir={tmp_path}")
    shutil.copytree(results / "small", tmp_path / "results" / "small")
    with pytest.raises(InvalidInput, match=r"(?s)No recorded study can be compared.*received 2 methods"):
        run_study_here("table", "--id=agreement", f"--runs_dir={tmp_path}")
    assert not (tmp_path / "tables").exists()


def test_a_wrong_study_is_one_clear_message(results, tmp_path):
    shutil.copytree(results / "up", tmp_path / "damaged")
    (tmp_path / "damaged" / ROWS).write_text("{\n")
    for study, phrase in ((results / "small", "received 2 methods"), (tmp_path / "damaged", "is no row")):
        finished = run_here("experiments.table", "--id=agreement", f"--study={study}", f"--runs_dir={tmp_path}")
        check_clean_failure(finished, phrase)
