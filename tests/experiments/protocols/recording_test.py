import dataclasses
import json
import shutil

import numpy as np
import pytest

from common.errors import InvalidInput
from common.files import read_arrays, write_arrays
from experiments.protocols import extras
from experiments.protocols.fair_report import FairReport
from experiments.protocols.recording import command_line, methods_under, record
from experiments.reports.scores import collection_scores, training_scores
from experiments.rows.rows import label_of
from experiments.rows.run_folders import collect, collect_method, run_row
from experiments.rows.store import CLASS_SCORES, ROWS, StudyRows
from experiments.runs.trained_model import DataFolder
from tests.experiments.tiny_study import TinyStudy
from tests.support.command_line import check_clean_failure, done_here, run_here


def lines(folder):
    return [json.loads(line) for line in (folder / ROWS).read_text().splitlines()]


def test_every_training_and_every_collection_has_a_row(recorded, tiny):
    rows = lines(recorded)
    assert [(row["label"], row["kind"]) for row in rows] == [
        *[("pnca+gap", "training")] * 2,
        ("pnca+gap", "collection"),
        *[("pnca+gsp", "training")] * 2,
        ("pnca+gsp", "collection"),
    ]
    first, collection = rows[0], rows[2]
    assert (first["fold"], first["repeat"], first["steps"], first["best_step"]) == (0, 0, 60, 60)
    assert first["configuration"]["embedding_dim"] == 8
    assert first["data"] == tiny.runs.fingerprint
    assert first["untrained"]["MAP@R"] == 0.125
    assert first["environment"]["tensorflow"]
    assert collection["members"] == [[0, 0], [1, 0]]
    assert str(tiny.folder) not in (recorded / ROWS).read_text()


def test_rows_keep_the_perplexities_of_the_selected_validation(tmp_path):
    study = TinyStudy(tmp_path / "runs")
    path = study.finish(study.config("pnca", "gsp"), 0)
    lines_of_run = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    for place, line in enumerate(lines_of_run):
        line["validation"] |= {"position_perplexity": 0.9 - 0.1 * place, "prototype_perplexity": 0.8 - 0.1 * place}
    later = {**lines_of_run[-1], "step": 80, "validation": {**line["validation"], "position_perplexity": 0.01}}
    later["validation"]["prototype_perplexity"] = 0.02
    (path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in [*lines_of_run, later]))
    record(collect_method(path.parent), tmp_path / "results", DataFolder(), command="python -m experiments.fair_eval")
    (row,) = lines(tmp_path / "results")
    place = [line["step"] for line in lines_of_run].index(row["best_step"])
    assert row["extras"]["position_perplexity"] == pytest.approx(0.9 - 0.1 * place)
    assert row["extras"]["prototype_perplexity"] == pytest.approx(0.8 - 0.1 * place)


def test_families_are_those_of_the_classes_with_queries(tmp_path):
    """A class of one image has no query."""
    study = TinyStudy(tmp_path)
    test = study.dataset.test
    is_kept = np.arange(len(test)) >= np.flatnonzero(test.labels == test.labels[0])[-1]
    study.dataset = dataclasses.replace(study.dataset, test=test.subset(is_kept))
    path = study.finish(study.config("c2", "gap")) / "test_embeddings.npz"
    arrays = read_arrays(path)
    write_arrays(path, {**arrays, "query_families": 10 * arrays["query_labels"]})
    found = collect_method(path.parent.parent)[0].scored()
    assert found.labels.tolist() == np.unique(arrays["query_labels"])[1:].tolist()
    assert found.families.tolist() == (10 * found.labels).tolist()


def test_rows_have_the_figures_and_the_paired_difference_of_the_runs_report(recorded, tiny):
    names = zip(("gap", "gsp"), collect(tiny.folder))
    gap, gsp = (FairReport(tiny.config("pnca", name), runs, 1) for name, runs in names)
    expected, study = gsp.rows(gap)[0].cells, StudyRows(recorded)
    ours = {
        (kind, metric): scores(study, "pnca+gsp").estimate(metric)
        for scores, kind in ((training_scores, "single 8-D"), (collection_scores, "concatenated 16-D"))
        for metric in ("P@1", "MAP@R")
    }
    difference = training_scores(study, "pnca+gsp").difference(training_scores(study, "pnca+gap"), "MAP@R")
    for key, found in {**ours, ("single minus pnca+gap", "MAP@R"): difference}.items():
        interval = expected[key].bounds
        bounds = interval.estimate, interval.low, interval.high
        assert (found.estimate, found.low, found.high) == pytest.approx(bounds, abs=1e-6)


def test_recording_twice_changes_no_byte(recorded, tiny_rows):
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in recorded.iterdir()}
    said = record(tiny_rows, recorded, DataFolder(), command="python -m another")
    assert "6 rows, of which 0 are new" in said[-1]
    assert {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in recorded.iterdir()} == before


def test_the_order_of_recording_makes_no_difference(recorded, tiny, tmp_path):
    other = tmp_path / "other"
    for rows in reversed(collect(tiny.folder)):
        record(rows, other, DataFolder(), command="python -m experiments.fair_eval")
    assert {path.name: path.read_bytes() for path in other.iterdir()} == {
        path.name: path.read_bytes() for path in recorded.iterdir()
    }


def test_a_command_that_was_not_known_is_filled_in(tiny_rows, tmp_path):
    record(tiny_rows, tmp_path, DataFolder())
    assert lines(tmp_path)[0]["command"] is None
    record(tiny_rows, tmp_path, DataFolder(), command="python -m experiments.fair_eval")
    assert lines(tmp_path)[0]["command"] == "python -m experiments.fair_eval"


def test_another_result_is_refused_unless_it_is_to_replace_the_row(recorded, tiny_rows):
    changed = tiny_rows[0].scored().with_values(steps=61)
    before = (recorded / ROWS).read_bytes()
    with pytest.raises(InvalidInput, match=r"another result of .*differs in: steps.*--replace"):
        record([changed], recorded, DataFolder())
    assert (recorded / ROWS).read_bytes() == before
    record([changed], recorded, DataFolder(), replace=True)
    assert [row["steps"] for row in lines(recorded) if row["kind"] == "training"] == [61, 60, 60, 60]


def test_two_configurations_of_one_name_are_refused(recorded):
    colder = TinyStudy(recorded.parent.parent / "runs")
    for fold in (0, 1):
        colder.finish(colder.config("pnca", "gap", temperature=0.2), fold)
    (found,) = methods_under(colder.folder)
    with pytest.raises(InvalidInput, match=r"two configurations called pnca\+gap .*--label"):
        record(found, recorded, DataFolder())
    record([row.scored().named("pnca+gap, colder", {"trials": [1]}) for row in found], recorded, DataFolder())
    assert "pnca+gap, colder" in {row["label"] for row in lines(recorded)}
    colder = [row for row in lines(recorded) if row["label"] == "pnca+gap, colder" and row["kind"] == "training"]
    assert all(row["extras"]["trials"] == [1] for row in colder)


def test_rows_keep_what_a_study_measures_of_each_run(tiny_rows, tmp_path):
    def measured(row):
        arrays = {"ramp": np.arange(3)} if row["fold"] == 0 else {}
        return row.scored().with_extras({"doubled": 2 * row["fold"]}, arrays)

    record(map(measured, tiny_rows[:2]), tmp_path, DataFolder())
    study = StudyRows(tmp_path)
    rows = [row for row in study.rows if row["kind"] == "training"]
    assert [row["extras"]["doubled"] for row in rows] == [0, 2]
    assert [list(row.arrays) for row in rows] == [["ramp"], []]
    assert all("rho" in row["extras"]["diagnostics"] for row in rows)


def test_unfinished_and_damaged_runs_are_named_and_left_out(tiny_rows, tmp_path):
    method = tiny_rows[0].folder.parent
    runs = tmp_path / "runs" / method.name
    shutil.copytree(method, runs)
    (runs / "fold1-repeat0" / "result.json").write_text("{")
    (runs / "fold1-repeat0" / "result.copy.json").unlink()
    (runs / "fold2-repeat0").mkdir()
    said = record(methods_under(runs)[0], tmp_path / "study", DataFolder())
    assert any("fold1-repeat0/result.json is damaged" in line for line in said)
    assert any("fold2-repeat0 is left out: it has not finished" in line for line in said)
    assert [(row["kind"], row["fold"]) for row in lines(tmp_path / "study")] == [("training", 0)]


def test_figures_that_are_not_of_the_embeddings_are_refused(tiny_rows, tmp_path):
    method = tiny_rows[0].folder.parent
    runs = tmp_path / method.name
    shutil.copytree(method, runs)
    unit = runs / "fold0-repeat0"
    with np.load(unit / "test_embeddings.npz") as archive:
        arrays = dict(archive)
    np.savez(unit / "test_embeddings.npz", **{**arrays, "queries": np.roll(arrays["queries"], 2, axis=0)})
    with pytest.raises(InvalidInput, match="they are not of one run"):
        record(methods_under(runs)[0], tmp_path / "study", DataFolder())
    assert not (tmp_path / "study").exists()


def test_places_are_no_part_of_the_command():
    arguments = ["experiments.table", "--id=5.1", "--runs_dir=/home/me/runs", "--data_dir", "/data", "--run"]
    arguments += ["--weights=/home/me/bn_inception.npz", "--record=results/mine", "--noreplace", "--budget", "demo"]
    assert command_line(arguments) == (
        "python -m experiments.table --id=5.1 --run --weights=bn_inception.npz --budget demo"
    )
    assert command_line(["experiments.record", "--replace", "runs"]) == "python -m experiments.record runs"


def test_pictures_of_tokens_show_the_first_training_of_each_method(monkeypatch, tmp_path):
    monkeypatch.setattr(extras, "token_extras", lambda *names, with_arrays: with_arrays)
    monkeypatch.setattr(DataFolder, "dataset_of", lambda self, row: None)
    for fold, repeat in ((0, 0), (0, 1), (1, 0)):
        row = run_row(tmp_path / "synthetic_tokens" / "c2+gsp-0123456789" / "run", fold, repeat, {}, {})
        assert extras.with_data_extras(row, DataFolder()) == (fold == repeat == 0)


def test_labels_follow_from_configurations():
    tokens = {"dataset": "synthetic_tokens", "loss": "c2", "method": "plain", "pooling": "gsp", "weights": "none"}
    assert label_of({**tokens, "zero_shot_weight": 0.0}) == "GSP"
    assert label_of({**tokens, "zero_shot_weight": 0.1}) == "GSP + L_ZS"
    collage = {**tokens, "dataset": "glyph_collage_distilled", "pooling": "gap"}
    assert label_of(collage) == "scratch: c2 gap, distilled"
    assert label_of({**collage, "weights": "0123", "frozen_backbone": True}) == "frozen: c2 gap, distilled"
    assert label_of({**tokens, "dataset": "glyphs", "method": "ccp"}) == "c2+ccp+gsp"


@pytest.mark.parametrize("name", ["glyph_collage", "glyph_collage_distilled", "emoji_clutter_32"])
def test_collages_keep_what_was_weighed(name, tmp_path):
    row, expected = run_row(tmp_path / name / "c2+gsp-0123456789" / "fold0-repeat0", 0, 0, {}, {}), {}
    row.folder.mkdir(parents=True)
    if not name.endswith("_distilled"):  # which has nothing but the target
        (row.folder / "target_shares.json").write_text(json.dumps({"weight_on_target": 1 / 3}))
        expected["target_shares"] = {"weight_on_target": 0.333333}
    assert extras.with_data_extras(row, DataFolder())["extras"] == expected


def test_the_command_records_and_refuses(tiny, tmp_path):
    study = tmp_path / "study"
    done = done_here("experiments.record", f"--runs={tiny.folder}", f"--study={study}")
    assert "6 rows, of which 6 are new" in done.stdout
    (study / CLASS_SCORES).write_bytes(b"")
    damaged = run_here("experiments.record", f"--runs={tiny.folder}", f"--study={study}")
    check_clean_failure(damaged, "class_scores.npz", "git checkout")
    nothing = run_here("experiments.record", f"--runs={tmp_path / 'nowhere'}", f"--study={study}")
    check_clean_failure(nothing, "holds no runs", "runs/fair/glyphs")
    check_clean_failure(run_here("experiments.record", f"--runs={tiny.folder}"), "Missing --study")
