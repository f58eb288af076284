import json
import signal
import time

import pytest

from common.training.trackers.mlflow_tracker import mlflow, named
from tests.command_line import SMALL_PHOTOGRAPHS, check_clean_failure, done_small, run_here, start_small
from tests.mlflow_server import free_port, mlflow_server, needs_server

MODULE = "experiments.fair_eval"
NUM_STEPS = 8


def steps_done(runs_dir, fold):
    lines = [path.read_text().splitlines() for path in runs_dir.rglob(f"fold{fold}-repeat0/metrics.jsonl")]
    return len(lines[0]) if lines else 0


@needs_server
@pytest.mark.release  # `mlflow_tracker_test` and `tracked_run_test` stop and continue runs
def test_two_units_of_which_one_is_killed_are_two_runs_with_every_step_once(image_folder, tmp_path):
    runs_dir = tmp_path / "runs"
    with mlflow_server(tmp_path) as url:
        arguments = [MODULE, *SMALL_PHOTOGRAPHS, f"--data_dir={image_folder}", f"--cache_dir={tmp_path / 'cache'}"]
        arguments += [f"--runs_dir={runs_dir}", "--loss=pnca", "--pooling=gap", "--num_folds=2", "--noexport_model"]
        arguments += [f"--max_steps={NUM_STEPS}", "--steps_per_evaluation=1", "--patience=100"]
        arguments += ["--checkpoint_seconds=1000"]
        arguments += ["--tracker=mlflow", f"--tracker_uri={url}", "--tracker_project=killed"]
        process = start_small(*arguments)
        end = time.monotonic() + 200
        while steps_done(runs_dir, fold=1) < 3 and process.poll() is None and time.monotonic() < end:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        assert process.wait(60) == -signal.SIGKILL  # in the second unit, all of whose steps are repeated
        again = done_small(*arguments)
        assert "View run" not in again.stdout
        client = mlflow().MlflowClient(tracking_uri=url)
        experiment = client.get_experiment_by_name("killed")
        found = {run.data.tags.get("fold", "report"): run for run in client.search_runs([experiment.experiment_id])}
        assert set(found) == {"0", "1", "report"}
        assert len(client.search_runs([experiment.experiment_id])) == 3
        for fold in ("0", "1"):
            check_unit(client, found[fold], next(runs_dir.rglob(f"fold{fold}-repeat0")))
        pictures = client.list_artifacts(found["report"].info.run_id, "pictures")
        assert [file.path for file in pictures] == ["pictures/validation_curves.png"]


def check_unit(client, run, folder):
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    history = client.get_metric_history(run.info.run_id, "loss")
    assert [point.step for point in history] == list(range(1, NUM_STEPS + 1))
    assert [point.value for point in history] == [record["loss"] for record in records]
    validation = client.get_metric_history(run.info.run_id, "validation/MAP_at_R")
    assert [point.value for point in validation] == [record["validation"]["MAP@R"] for record in records]
    result = json.loads((folder / "result.json").read_text())
    for name, value in result["test"].items():
        assert run.data.metrics[f"test/{named(name)}"] == value
    assert run.info.status == "FINISHED"
    assert run.data.tags["config"] == result["config_hash"]
    assert run.data.params["max_steps"] == str(NUM_STEPS)
    assert json.loads((folder / "config.json").read_text()).keys().isdisjoint({"tracker", "tracker_uri"})


@needs_server
@pytest.mark.slow
def test_a_server_that_does_not_answer_is_refused_before_any_folder(tmp_path):
    url = f"http://127.0.0.1:{free_port()}"
    refused = run_here(MODULE, "--dataset=glyphs", f"--runs_dir={tmp_path}", "--tracker=mlflow", f"--tracker_uri={url}")
    check_clean_failure(refused, "Invalid --tracker_uri", url, "Start it (mlflow server)")
    assert list(tmp_path.iterdir()) == []
