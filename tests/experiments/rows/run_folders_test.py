import copy
import json
import re

import numpy as np
import pytest

from common.errors import InvalidInput
from experiments.rows.run_folders import (
    collect,
    collect_method,
    config_of,
    deviations_of,
    finished,
    missing,
    objection_to,
    problems_of,
)
from experiments.settings.config import identity_digest
from tests.experiments.written_results import finished_result

CONFIG = {"loss": "pnca", "learning_rate": 0.1}
HASH = identity_digest(CONFIG)[:10]


def write_unit(runs_dir, fold, repeat, /, *, method="pnca+gsp", config=CONFIG, dataset="glyphs", **changes):
    folder_hash = identity_digest(config)[:10]
    path = runs_dir / "fair" / dataset / f"{method}-{folder_hash}" / f"fold{fold}-repeat{repeat}"
    path.mkdir(parents=True)
    test = {"P@1": 0.8, "MAP@R": 0.5 + fold / 100, "note": None}
    result = finished_result(test, fold, repeat, folder_hash)
    result |= {"untrained": {"MAP@R": 0.16, "P@1": 0.2}, "deviations": ["one image less"]}
    (path / "config.json").write_text(json.dumps({**config, "fold": fold, "repeat": repeat}))
    (path / "result.json").write_text(json.dumps({**result, **changes}))
    return path


def test_runs_are_grouped_by_configuration_and_never_mixed(tmp_path):
    for fold in (1, 0):
        write_unit(tmp_path, fold, 0)
    write_unit(tmp_path, 0, 0, config={**CONFIG, "learning_rate": 0.2})
    write_unit(tmp_path, 0, 0, method="c1+xbm+gap")
    write_unit(tmp_path, 0, 0, dataset="sop")
    found = collect(tmp_path, "fair", "glyphs")
    other = identity_digest({**CONFIG, "learning_rate": 0.2})[:10]
    assert sorted((rows[0]["method"], rows[0]["config_hash"], len(rows)) for rows in found) == sorted(
        [("c1+xbm+gap", HASH, 1), ("pnca+gsp", HASH, 2), ("pnca+gsp", other, 1)]
    )
    (rows,) = (rows for rows in found if len(rows) == 2)
    assert {(row["protocol"], row["dataset"]) for row in rows} == {("fair", "glyphs")}
    assert (problems_of(rows), deviations_of(rows)) == ([], ["one image less"])
    assert list(finished(rows)) == [(0, 0), (1, 0)]
    assert rows[1]["test"] == {"P@1": 0.8, "MAP@R": 0.51}
    assert rows[1]["untrained"] == {"MAP@R": 0.16, "P@1": 0.2}
    assert missing(rows, 2, 2) == [(0, 1), (1, 1)]
    assert config_of(rows)["loss"] == "pnca"
    assert len(collect(tmp_path)) == 4
    assert collect(tmp_path / "nothing") == []


@pytest.mark.parametrize("text", ['{"status": "finished", "te', "", "[1, 2]", "\x00\x00"])
def test_a_damaged_result_is_unfinished_and_named(tmp_path, text):
    path = write_unit(tmp_path, 0, 0)
    write_unit(tmp_path, 1, 0)
    (path / "result.json").write_text(text)
    rows = collect_method(path.parent)
    assert list(finished(rows)) == [(1, 0)]
    assert problems_of(rows) == [f"{path / 'result.json'} is damaged; the run counts as unfinished."]
    assert rows[0]["test"] == rows[0]["untrained"] == {}


def test_a_result_in_the_wrong_folder_is_left_out_and_named(tmp_path):
    write_unit(tmp_path, 0, 0)
    rows = collect_method(write_unit(tmp_path, 1, 0, repeat=2).parent)
    assert list(finished(rows)) == [(0, 0)]
    assert "fold1-repeat0/result.json is left out: it says fold 1, repeat 2" in rows[1].problem


@pytest.mark.parametrize("change", [{"learning_rate": 123.0}, {"backbone": "../x"}, {"fold": -1}, {"loss": ["pnca"]}])
def test_a_configuration_that_was_changed_since_is_no_evidence(tmp_path, change):
    path = write_unit(tmp_path, 0, 0)
    stored = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps({**stored, **change}))
    (row,) = collect_method(path.parent)
    assert not row.is_finished
    assert re.search(r"its config.json (was changed: it has the hash .{10}, the run has|says fold -1)", row.problem)


def test_a_longer_hash_in_the_result_may_begin_with_the_folders(tmp_path):
    path = write_unit(tmp_path, 0, 0)
    stored = json.loads((path / "result.json").read_text())
    (path / "result.json").write_text(json.dumps({**stored, "config_hash": HASH + "abc"}))
    assert finished(collect_method(path.parent))


def test_unfinished_runs_are_no_problem(tmp_path):
    running = write_unit(tmp_path, 0, 0, status="running")
    started = write_unit(tmp_path, 1, 0)
    (started / "result.json").unlink()
    (started / "config.json").write_text("{")
    (started.parent / "notes-of-mine").mkdir()
    rows = collect_method(running.parent)
    assert (len(rows), finished(rows), problems_of(rows), rows[1].config) == (2, {}, [], {})


def test_validation_curve_skips_what_cannot_be_read_and_takes_the_last_of_a_step(tmp_path):
    path = write_unit(tmp_path, 0, 0)
    lines = [
        {"step": 200, "validation": {"MAP@R": 0.2}},
        {"step": 100, "validation": {"MAP@R": 0.1, "P@1": 0.4}},
        {"step": 250, "loss": 1.0},
        {"step": 200, "validation": {"MAP@R": 0.3}},
    ]
    text = "\n".join(json.dumps(line) for line in lines) + '\nnull\n{"step": 300, "valida'
    (path / "metrics.jsonl").write_text(text)
    (row,) = collect_method(path.parent)
    steps, values = row.curve()
    assert steps.tolist() == [100, 200]
    assert values.tolist() == [0.1, 0.3]
    assert row.curve("P@1")[0].tolist() == [100]
    assert row.problem is None  # a line that was cut off is what a kill leaves
    (path / "metrics.jsonl").unlink()
    assert len(collect_method(path.parent)[0].curve()[0]) == 0


@pytest.mark.parametrize(
    "line",
    [
        '{"step": 200, "validation": {"MAP@R": "high"}}',
        '{"step": 200, "validation": {"MAP@R": NaN}}',
        '{"step": 200, "validation": {"MAP@R": 1e999}}',
        '{"step": "two hundred", "validation": {"MAP@R": 0.2}}',
        '{"step": 200, "validation": [0.2]}',
        '{"validation": {"MAP@R": 0.2}}',
    ],
)
def test_lines_of_metrics_that_no_run_writes_are_left_out_and_named(tmp_path, line):
    path = write_unit(tmp_path, 0, 0)
    (path / "metrics.jsonl").write_text(f'{{"step": 100, "validation": {{"MAP@R": 0.1}}}}\n{line}\n{"[" * 10**5}\n')
    (row,) = collect_method(path.parent)
    assert row.curve()[1].tolist() == [0.1]
    said = f"{path / 'metrics.jsonl'} has 1 line(s) whose step or validation is no number; they are left out."
    assert row.problem == said


def test_test_embeddings_are_read_and_damage_is_named(tmp_path):
    path = write_unit(tmp_path, 0, 0)
    (row,) = collect_method(path.parent)
    with pytest.raises(InvalidInput, match="test_embeddings.npz is missing. .*delete .*fold0-repeat0 first"):
        row.test_embeddings()
    np.savez(path / "test_embeddings.npz", queries=np.eye(2), query_labels=np.arange(2))
    assert row.test_embeddings()["query_labels"].tolist() == [0, 1]


def test_a_damaged_result_gives_way_to_its_copy_and_that_is_said(tmp_path):
    path = write_unit(tmp_path, 0, 0)
    content = (path / "result.json").read_text()
    (path / "result.copy.json").write_text(content)
    (path / "result.json").write_text(content[:50])
    (row,) = collect_method(path.parent)
    assert row["test"]["MAP@R"] == 0.5
    assert row.problem == f"{path / 'result.json'} is damaged; result.copy.json took its place."
    assert (path / "result.json").read_text() == content[:50]  # a report changes no run
    (path / "result.json").unlink()  # somebody wants it run again
    assert not collect_method(path.parent)[0].is_finished


def test_what_may_not_be_read_is_named(tmp_path):
    path = write_unit(tmp_path, 0, 0)
    (path / "result.json").unlink()
    (path / "result.json").mkdir()
    assert collect_method(path.parent)[0].problem == f"{path / 'result.json'} cannot be read (Is a directory)."


def test_folders_of_absurd_numbers_are_no_runs(tmp_path):
    path = write_unit(tmp_path, 0, 0)
    (path.parent / "fold0-repeat999999999999").mkdir()
    assert [row["repeat"] for row in collect_method(path.parent)] == [0]


RESULT_HASH = "0123456789"
RESULT = {
    "format": 1,
    "status": "finished",
    "config_hash": RESULT_HASH,
    "fold": 2,
    "repeat": 0,
    "test": {"P@1": 0.5, "MAP@R": 1, "num_queries": 40},
    "untrained": {"P@1": 0.2, "MAP@R": 0.0},
    "validation": {"best": {"step": 20, "MAP@R": 0.4}},
    "steps": 40,
    "train_seconds": 2.5,
    "diagnostics": {"rho": 0.2, "warning": "collapsed"},
    "deviations": ["one image less"],
    "problems": [{"steps": 12}],
}


def objection(changes):
    result = copy.deepcopy(RESULT)
    for path, value in changes.items():
        *parents, name = path.split()
        place = result
        for parent in parents:
            place = place[parent]
        if value is KeyError:
            del place[name]
        else:
            place[name] = value
    return objection_to(result, 2, 0, RESULT_HASH)


@pytest.mark.parametrize(
    "changes", [{}, {"diagnostics": KeyError}, {"deviations": KeyError, "problems": KeyError}, {"format": KeyError}]
)
def test_what_a_run_writes_is_shown(changes):
    assert objection(changes) is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 9}, "it has format 9, this version of the code reads 1"),
        ({"format": [1, 1]}, r"it has format \[1, 1\], this"),
        ({"config_hash": "ffffffffff"}, f"its configuration hash is ffffffffff, its folder's is {RESULT_HASH}"),
        ({"config_hash": ""}, "its configuration hash is missing"),
        ({"fold": 3}, "it says fold 3, repeat 0"),
        ({"repeat": 1}, "it says fold 2, repeat 1"),
        ({"test": None}, "its test is None, expected an object"),
        ({"test MAP@R": KeyError}, "it has no test MAP@R"),
        ({"test MAP@R": "high"}, "its test MAP@R is 'high', expected a number from 0 to 1"),
        ({"test P@1": float("nan")}, "its test P@1 is nan, expected a number from 0 to 1"),
        ({"test P@1": 1.5}, "its test P@1 is 1.5, expected a number from 0 to 1"),
        ({"test P@1": True}, "its test P@1 is True, expected"),
        ({"test P@1": 10**400}, "its test P@1 is 1000.*, expected"),
        ({"untrained P@1": "x" * 1000}, "its untrained P@1 is 'x{59}[.]{3}, expected"),
        ({"untrained": []}, r"its untrained is \[\], expected an object"),
        ({"steps": 1.5}, "its steps is 1.5, expected an integer from 0"),
        ({"train_seconds": float("nan")}, "its train_seconds is nan, expected a number from 0"),
        ({"train_seconds": KeyError}, "it has no train_seconds"),
        ({"validation": {"best": []}}, r"its validation best is \[\], expected an object"),
        ({"validation best step": None}, "its validation best step is None, expected a number"),
        ({"diagnostics": None}, "its diagnostics is None, expected an object"),
        ({"diagnostics rho": "low"}, "its diagnostics rho is 'low', expected a number"),
        ({"diagnostics warning": 1}, "its diagnostics warning is 1, expected a text"),
        ({"deviations": "one image less"}, "its deviations is 'one image less', expected a list"),
        ({"deviations": [1]}, "its deviations 0 is 1, expected a text"),
        ({"problems": [1]}, "its problems 0 is 1, expected an object"),
        ({"environment": [1]}, r"its environment is \[1\], expected an object"),
    ],
)
def test_what_no_run_writes_is_named(changes, message):
    found = objection(changes)
    assert re.fullmatch(f"{message}.*", found), found
