"""Runs of the MNIST study become rows, from which table and picture follow."""

import json

import numpy as np
import pytest

from common.files import write_json
from experiments.rows.extras import ExtrasReader
from experiments.rows.recording import record
from experiments.rows.store import StudyRows
from experiments.studies.mnist_record import draw_mnist_problems, label_of, mnist_problems, recordable
from experiments.studies.mnist_report import problems_table, states_of
from tests.experiments.studies.mnist_report_test import digits, finished_run
from tools.documents.comparisons import held_against


def complete(run):
    """What `train_in` writes into a run beside its figures."""
    config = json.loads((run.path / "config.json").read_text())
    write_json(run.path / "config.json", {**config, "data": "0123"})
    best = {"best": {"MAP@R": 0.5, "step": 200}}
    run.result.update(validation=best, train_seconds=9.0, seed=run.settings.seed, environment=ENVIRONMENT)
    return run


ENVIRONMENT = {"commit": "abc", "cpu": "a processor", "tensorflow": "2", "keras": "3", "threads": 1}


@pytest.fixture
def study(tmp_path):
    kinds = {"proxies": 0.1, "samples": 0.05}
    runs = [
        complete(finished_run(tmp_path, kind, repeat, (0.9, 0.5, spread)))
        for repeat in (0, 1)
        for kind, spread in kinds.items()
    ]
    methods = recordable(runs, digits())
    naming = {method.path: of for method, of in methods}
    for _ in range(2):  # a second time, nothing changes
        said = record([method for method, _ in methods], tmp_path / "rows", ExtrasReader(), naming=naming)
    assert "4 rows, of which 0 are new" in said[-1]
    return StudyRows(tmp_path / "rows"), runs


def test_a_seed_is_a_repeat_of_one_configuration(study):
    rows = study[0].rows
    assert [(row["label"], row["fold"], row["repeat"]) for row in rows] == [
        *(("proxies", 0, repeat) for repeat in (0, 1)),
        *(("samples", 0, repeat) for repeat in (0, 1)),
    ]
    assert len({row["config_hash"] for row in rows}) == 2
    assert rows[0]["data"] == "0123"
    assert rows[0]["protocol"] == "mnist_study"
    assert "seed" not in rows[0]["configuration"]


def test_the_table_is_that_of_the_runs(study):
    rows, runs = study
    table, _ = mnist_problems(rows, "proxies")
    expected = problems_table(
        "proxies", [states_of(run, digits()) for run in runs if run.settings.anchors == "proxies"]
    )
    assert table.rows == expected.rows
    assert table.notes == expected.notes
    states = states_of(runs[0], digits())
    kept = rows.rows[0]["extras"]
    assert kept["map_at_r_first"] == pytest.approx(states[1].map_at_r, abs=1e-6)
    assert kept["cover_last"] == pytest.approx(states[-1].cover_of_converged, abs=1e-6)
    lines = held_against(rows)[0].rows
    assert [line[0] for line in lines] == ["proxies", "samples"]
    assert lines[1][3] == "proxies"


def test_the_digits_of_the_first_run_of_proxies_are_kept(study, tmp_path):
    rows = study[0]
    kept = {(row["label"], row["repeat"]): rows.scored(row).arrays for row in rows.rows}
    assert {key for key, arrays in kept.items() if arrays} == {("proxies", 0)}
    arrays = kept["proxies", 0]
    expected = {"labels", *(f"{name}_{index}" for name in ("queries", "chosen", "converged") for index in range(3))}
    assert set(arrays) == expected - {"converged_0"}
    assert arrays["queries_1"].shape == (60, 2)
    assert np.array_equal(np.sort(arrays["labels"]), np.repeat(np.arange(3), 20))
    draw_mnist_problems(rows, tmp_path / "plane.png", "proxies")
    assert (tmp_path / "plane.png").stat().st_size > 5000


def test_fixed_proxies_are_named_by_their_length(tmp_path):
    run = finished_run(tmp_path, "fixed proxies", 0)
    assert label_of(run) == "fixed proxies, 2,400 steps"
