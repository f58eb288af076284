import dataclasses
import json

import numpy as np
import pytest

from ccp_dml.projection_problem import snapshot_path
from common.data import Dataset, Examples
from common.errors import InvalidInput
from common.files import write_arrays
from common.records import RunDirectory
from common.retrieval import evaluate_retrieval
from experiments.protocols.recording import record
from experiments.rows.run_folders import run_row
from experiments.rows.store import StudyRows
from experiments.runs.trained_model import DataFolder
from experiments.studies.mnist import MnistSettings
from experiments.studies.mnist_report import (
    State,
    direction,
    label_of,
    problems_table,
    recordable,
    states_of,
    write_report,
)
from tools.documents.comparisons import held_against
from tools.documents.pictures import draw_mnist_problems
from tools.documents.tables import mnist_problems

LABELS = np.repeat(np.arange(3), 20)
CORNERS = np.array([[1.0, 0.0], [-0.5, 0.8], [-0.5, -0.8]])
STATES = [
    State(0, 0, 0.1, 0.2, None, 0.1),
    State(1, 800, 0.85, 0.96, 0.52, 0.4),
    State(2, 200, 0.97, 1.31, 0.27, 0.2),
]


def digits(name="mnist"):
    examples = Examples(LABELS, np.zeros((60, 4, 4, 1), np.uint8))
    return Dataset(name, examples, examples, class_names="012")


def finished_run(path, anchors, repeat, spreads=(0.9, 0.5, 0.1)):
    """A run of two problems whose classes draw together around three corners."""
    settings = MnistSettings(anchors=anchors, seed=repeat).as_dict()
    run = RunDirectory(path / f"{anchors}{repeat}", {**settings, "data": "0123"})
    generator = np.random.default_rng(repeat)
    for index, spread in enumerate(spreads):
        points = (CORNERS[LABELS] + spread * generator.normal(size=(60, 2))).astype(np.float32)
        arrays = {"queries": points, "chosen": points.reshape(3, 20, 2)[:, :4]}
        if index:
            arrays["converged"] = np.repeat(CORNERS[:, None], 4, axis=1).astype(np.float32)
        write_arrays(snapshot_path(run.path, index), arrays)
    result = {
        "test": evaluate_retrieval(points, LABELS).as_dict(),
        "problems": [{"index": index, "start_step": 40, "steps": 100 * (index + 1)} for index in range(len(spreads))],
        "validation": {"best": {"step": 300, "MAP@R": 0.9}},
        "untrained": {},
        "steps": 300,
        "train_seconds": 1.0,
    }
    environment = {"commit": "abc", "cpu": "a processor", "tensorflow": "2", "keras": "3", "threads": 1}
    result |= {"seed": repeat, "environment": environment}
    run.write_result(result, {"queries": points, "query_labels": LABELS}, [])
    del settings["seed"]
    return run_row(run.path, 0, repeat, {**settings, "dataset": "mnist", "data": "0123"}, run.read_result())


def test_states_are_measured_once(tmp_path):
    run = finished_run(tmp_path, "proxies", 0)
    states = states_of(run, digits())
    assert [state.steps for state in states] == [40, 100, 200]
    assert states[0].map_at_r < states[1].map_at_r < states[2].map_at_r
    assert states[0].cover_of_converged is None
    assert states[1].cover_of_converged > states[2].cover_of_converged
    kept = json.loads((run.folder / "states.json").read_text())
    kept["states"][0]["map_at_r"] = 0.125
    (run.folder / "states.json").write_text(json.dumps(kept))
    assert states_of(run, digits())[0].map_at_r == 0.125


def test_problems_stand_beside_the_printed_panels():
    lines = problems_table("proxies", [STATES]).as_text().splitlines()
    assert lines[4].split() == ["before", "problem", "1", "0", "0.100", "-", "-", "-", "0.100", "0.200", "-"]
    assert lines[5].split() == [
        *("(a)", "problem", "1", "800"),
        *("0.850", "0.85", "0.520", "0.52", "0.400", "0.960", "0.96"),
    ]
    assert lines[6].split() == [
        *("(b.1)", "problem", "2", "200"),
        *("0.970", "0.87", "0.270", "0.54", "0.200", "1.310", "0.92"),
    ]
    of_samples = problems_table("samples", [STATES]).as_text()
    assert "0.54" not in of_samples


def test_the_direction_is_said_in_words():
    assert direction(STATES, 0) == (
        "seed 1: MAP@R 0.850 -> 0.970, rises as printed; covering radius 0.520 -> 0.270, falls as printed."
    )
    worse = [STATES[0], STATES[2], STATES[1]]
    assert direction(worse, 1) == (
        "seed 2: MAP@R 0.970 -> 0.850, does not go as printed (rises there); "
        "covering radius 0.270 -> 0.520, does not go as printed (falls there)."
    )
    assert "no direction" in direction(STATES[:2], 0)


def test_the_report_compares_kinds_of_anchors(tmp_path):
    kinds = {"proxies": 0.1, "samples": 0.05, "fixed proxies": 0.4}
    runs = [
        finished_run(tmp_path, kind, repeat, (0.9, 0.5, spread)) for kind, spread in kinds.items() for repeat in (0, 1)
    ]
    text = write_report(runs, digits(), tmp_path / "report")
    written = {path.name for path in (tmp_path / "report").iterdir()}
    tables = {"problems_proxies.md", "problems_samples.md", "samples_and_proxies.md", "samples_and_proxies.csv"}
    assert written == tables | {"problems_proxies.png", "problems_samples.png"}
    assert text.count("seed 2:") == 2
    assert "97.21" in text
    assert "98.06" in text
    assert "below" in text or "above" in text or "reproduced" in text
    assert "minus proxies" in text


@pytest.mark.parametrize(
    ("changes", "deviations", "reason"),
    [({"max_steps": 9}, (), "other settings than the full budget's (max_steps)"), ({}, ("cut",), "data set: cut")],
)
def test_what_cannot_be_compared_is_said(tmp_path, changes, deviations, reason):
    run = finished_run(tmp_path, "proxies", 0)
    run = run.with_values(configuration={**run["configuration"], **changes})
    dataset = dataclasses.replace(digits(), deviations=deviations)
    text = write_report([run], dataset, tmp_path / "report")
    assert "not comparable" in text
    details = " ".join(path.read_text() for path in (tmp_path / "report").glob("*.md"))
    assert reason in " ".join(details.split())


@pytest.fixture
def study(tmp_path):
    kinds = {"proxies": 0.1, "samples": 0.05}
    runs = [
        finished_run(tmp_path, kind, repeat, (0.9, 0.5, spread)) for repeat in (0, 1) for kind, spread in kinds.items()
    ]
    for _ in range(2):  # a second time, nothing changes
        said = record(recordable(runs, digits()), tmp_path / "rows", DataFolder())
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
    table, labels = mnist_problems(rows, "proxies")
    assert (table.title, labels) == ("", ["proxies"])
    expected = problems_table(
        "proxies", [states_of(run, digits()) for run in runs if run.config["anchors"] == "proxies"]
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
    with pytest.raises(InvalidInput, match="no row of fixed proxies keeps 'states'. Expected those of figure 3.2"):
        mnist_problems(rows, "fixed proxies")


def test_the_digits_of_the_first_run_of_proxies_are_kept(study, tmp_path):
    rows = study[0]
    kept = {(row["label"], row["repeat"]): row.arrays for row in rows.rows}
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
