import json

import numpy as np
import pytest

from common.ops.checks import InvalidInput
from experiments.reports.collect import collect, collect_method, same_trainings

HASH = "0123456789"


def write_unit(runs_dir, fold, repeat, /, *, method="pnca+gsp", folder_hash=HASH, dataset="glyphs", **changes):
    path = runs_dir / "fair" / dataset / f"{method}-{folder_hash}" / f"fold{fold}-repeat{repeat}"
    path.mkdir(parents=True)
    result = {
        "format": 1,
        "status": "finished",
        "fold": fold,
        "repeat": repeat,
        "config_hash": folder_hash,
        "test": {"P@1": 0.8, "MAP@R": 0.5 + fold / 100, "note": None},
        "untrained": {"MAP@R": 0.16},
        "deviations": ["one image less"],
    }
    (path / "config.json").write_text(json.dumps({"loss": "pnca", "fold": fold}))
    (path / "result.json").write_text(json.dumps({**result, **changes}))
    return path


def test_runs_are_grouped_by_configuration_and_never_mixed(tmp_path):
    for fold in (1, 0):
        write_unit(tmp_path, fold, 0)
    write_unit(tmp_path, 0, 0, folder_hash="abcdefabcd")
    write_unit(tmp_path, 0, 0, method="c1+xbm+gap")
    write_unit(tmp_path, 0, 0, dataset="sop")
    found = collect(tmp_path, "fair", "glyphs")
    assert [(runs.method, runs.config_hash, len(runs.units)) for runs in found] == [
        ("c1+xbm+gap", HASH, 1),
        ("pnca+gsp", HASH, 2),
        ("pnca+gsp", "abcdefabcd", 1),
    ]
    runs = found[1]
    assert (runs.protocol, runs.dataset, runs.problems, runs.deviations) == ("fair", "glyphs", (), ("one image less",))
    assert list(runs.finished) == [(0, 0), (1, 0)]
    assert runs.finished[1, 0].test_metrics() == {"P@1": 0.8, "MAP@R": 0.51}
    assert runs.finished[1, 0].untrained_metrics() == {"MAP@R": 0.16}
    assert runs.missing(2, 2) == [(0, 1), (1, 1)]
    assert runs.config["loss"] == "pnca"
    assert len(collect(tmp_path)) == 4
    assert collect(tmp_path / "nothing") == []


@pytest.mark.parametrize("text", ['{"status": "finished", "te', "", "[1, 2]", "\x00\x00"])
def test_a_damaged_result_is_unfinished_and_named(tmp_path, text):
    path = write_unit(tmp_path, 0, 0)
    write_unit(tmp_path, 1, 0)
    (path / "result.json").write_text(text)
    runs = collect_method(path.parent)
    assert list(runs.finished) == [(1, 0)]
    (problem,) = runs.problems
    assert problem == f"{path / 'result.json'} is damaged; the run counts as unfinished."
    assert runs.units[0].test_metrics() == runs.units[0].untrained_metrics() == {}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"config_hash": "ffffffffff"}, f"its configuration hash is ffffffffff, its folder's is {HASH}"),
        ({"config_hash": ""}, "its configuration hash is missing"),
        ({"fold": 3}, "it says fold 3, repeat 0"),
        ({"repeat": 2}, "it says fold 1, repeat 2"),
        ({"test": None}, "it has no test metrics"),
        ({"test": {"MAP@R": "high"}}, "it has no test metrics"),
    ],
)
def test_a_result_in_the_wrong_folder_is_left_out_and_named(tmp_path, changes, message):
    runs = collect_method(write_unit(tmp_path, 0, 0).parent)
    assert runs.finished
    write_unit(tmp_path, 1, 0, **changes)
    runs = collect_method(runs.path)
    assert list(runs.finished) == [(0, 0)]
    assert "fold1-repeat0/result.json is left out: " in runs.problems[0]
    assert message in runs.problems[0]


def test_a_longer_hash_in_the_result_may_begin_with_the_folders(tmp_path):
    path = write_unit(tmp_path, 0, 0)
    stored = json.loads((path / "result.json").read_text())
    (path / "result.json").write_text(json.dumps({**stored, "config_hash": HASH + "abc"}))
    assert collect_method(path.parent).finished


def test_unfinished_runs_are_no_problem(tmp_path):
    running = write_unit(tmp_path, 0, 0, status="running")
    started = write_unit(tmp_path, 1, 0)
    (started / "result.json").unlink()
    (started / "config.json").write_text("{")
    (started.parent / "notes-of-mine").mkdir()
    runs = collect_method(running.parent)
    assert (len(runs.units), runs.finished, runs.problems, runs.units[1].config) == (2, {}, (), {})


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
    (unit,) = collect_method(path.parent).units
    steps, values = unit.validation_curve()
    assert steps.tolist() == [100, 200]
    assert values.tolist() == [0.1, 0.3]
    assert unit.validation_curve("P@1")[0].tolist() == [100]
    (path / "metrics.jsonl").unlink()
    assert len(unit.validation_curve()[0]) == 0


def test_test_embeddings_are_read_and_damage_is_named(tmp_path):
    path = write_unit(tmp_path, 0, 0)
    (unit,) = collect_method(path.parent).units
    with pytest.raises(InvalidInput, match="test_embeddings.npz is missing. Delete .*fold0-repeat0 and run"):
        unit.test_embeddings()
    np.savez(path / "test_embeddings.npz", queries=np.eye(2), query_labels=np.arange(2))
    assert unit.test_embeddings()["query_labels"].tolist() == [0, 1]
    (path / "test_embeddings.npz").write_bytes(b"PK\x03\x04 cut off")
    with pytest.raises(InvalidInput, match="test_embeddings.npz"):
        unit.test_embeddings()


def test_methods_without_trainings_are_not_trained_alike(tmp_path):
    first, second = (
        collect_method(write_unit(tmp_path, 0, 0, method=method).parent).units for method in ("pnca+gap", "pnca+gsp")
    )
    assert same_trainings(first, second)
    assert not same_trainings(first, ())
    assert not same_trainings((), ())
