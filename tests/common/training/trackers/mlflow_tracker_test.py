import sys

import pytest

from common.errors import InvalidInput
from common.training.trackers import TrackerChoice
from common.training.trackers.mlflow_tracker import check_server, mlflow
from tests.common.training.trackers.wandb_tracker_test import DESCRIPTION, RESULT, followed_until_it_is_stopped
from tests.support.mlflow_server import free_port, needs_server


def runs(url, project):
    client = mlflow().MlflowClient(tracking_uri=url)
    experiment = client.get_experiment_by_name(project)
    return client, client.search_runs([experiment.experiment_id])


def curve(client, run, name):
    return [(point.step, point.value) for point in client.get_metric_history(run.info.run_id, name)]


@needs_server
def test_a_stopped_run_continues_as_the_same_one(tmp_path, monkeypatch):
    """In MLflow's own store of files, in the place of a server."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    server = (tmp_path / "store").as_uri()
    choice = TrackerChoice("mlflow", server, "continued")
    tracked = choice.tracked(DESCRIPTION, tmp_path)
    with pytest.raises(KeyboardInterrupt):
        followed_until_it_is_stopped(tracked)
    client, (stopped,) = runs(server, "continued")
    assert stopped.info.status == "KILLED"
    picture = tmp_path / "curves.png"
    picture.write_bytes(b"\x89PNG")
    again = choice.tracked(DESCRIPTION, tmp_path)
    again.start()
    again.log({"loss": 1.0, "validation/MAP@R": 0.25}, 4)
    again.log({"loss": 0.5, "validation/MAP@R": 0.75}, 6)
    again.picture(picture)
    again.end(RESULT)
    again.end(RESULT)
    client, (run,) = runs(server, "continued")
    assert run.info.run_id == stopped.info.run_id
    assert (run.info.run_name, run.info.status) == ("c2+gap fold 0", "FINISHED")
    assert curve(client, run, "loss") == [(2, 2.0), (4, 1.0), (6, 0.5)]
    assert curve(client, run, "validation/MAP_at_R") == [(2, 0.5), (4, 0.25), (6, 0.75)]
    assert curve(client, run, "test/MAP_at_R") == [(6, 0.25)]
    assert run.data.params == {"learning_rate": "0.001"}
    assert run.data.tags["fold"] == "0"
    assert run.data.tags["group"] == "c2+gap-0123456789"
    assert [file.path for file in client.list_artifacts(run.info.run_id, "pictures")] == ["pictures/curves.png"]


@needs_server
def test_a_server_that_does_not_answer_is_refused_at_once():
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(InvalidInput, match=r"Invalid --tracker_uri.*expected the address of an MLflow server"):
        check_server(url, "glyphs")


def test_a_missing_client_names_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(InvalidInput, match=r"pip install 'deep-metric-learning\[mlflow\]"):
        mlflow()
