import json

import pytest

from common.training.trackers import TENSORBOARD, TrackerChoice
from experiments.recipes import resolve
from experiments.runs.unit_runs import follow_pictures, tracked_unit
from tests.common.training.trackers.tracked_run_test import Memory
from tests.experiments.tiny_study import TinyStudy
from tests.support.command_line import check_clean_failure, run_here
from tests.support.mlflow_server import free_port, needs_server


class Remembering(TrackerChoice):
    """A choice whose tracker is a list."""

    told = []

    def tracked(self, description, folder):
        return Memory(folder, self.told, description)


def test_a_unit_says_what_it_is(tmp_path):
    config = resolve("glyphs", "c2", "gap", "thesis", "smoke", {})
    description = tracked_unit(TENSORBOARD, config, 1, 2, tmp_path, "data").description
    assert description.name == "c2+gap fold 1 repeat 2"
    assert description.group == f"c2+gap-{config.hash('data')}"
    assert description.parameters == config.as_dict()
    assert description.tags == description.tags | {"fold": "1", "repeat": "2", "data": "data", "protocol": "fair"}
    assert set(description.tags) >= {"commit", "config"}


@pytest.mark.parametrize("kind", ["mlflow", "none"])
def test_pictures_of_a_report_are_a_run_of_their_own_once(tmp_path, kind):
    choice = Remembering(kind)
    choice.told.clear()
    follow_pictures(choice, tmp_path / "missing", "Report")
    assert choice.told == []
    (tmp_path / "curves.png").write_bytes(b"picture")
    (tmp_path / "report.csv").write_text("1,2")
    for _ in range(2):
        follow_pictures(choice, tmp_path, "Report")
    kinds = [what[0] for what in choice.told]
    assert kinds == (["start", "picture", "finish"] if kind == "mlflow" else [])


@pytest.mark.usefixtures("tiny_network", "functions_run_eagerly")
def test_a_unit_that_is_stopped_and_resumed_is_one_run_with_every_step_once(tmp_path):
    study, choice = TinyStudy(tmp_path), Remembering("mlflow")
    choice.told.clear()
    study.runs.tracker = choice
    config = study.config("c2", "gap", max_steps=6, steps_per_evaluation=1, patience=100)

    def stop(step, metrics):
        if step == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        study.runs.train(config, 0, 0, checkpoint_seconds=0, watch=stop)
    study.runs.train(config, 0, 0)
    folder = study.runs.unit_dir(config, 0, 0)
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    logged = [(what[2], what[1]["loss"], what[1]["validation/MAP@R"]) for what in choice.told if what[0] == "log"]
    assert logged == [(place, each["loss"], each["validation"]["MAP@R"]) for place, each in enumerate(records, 1)]
    assert len(logged) == 6
    (figures,) = [what[1] for what in choice.told if what[0] == "result"]
    test = json.loads((folder / "result.json").read_text())["test"]
    assert {f"test/{name}": value for name, value in test.items()}.items() <= figures.items()
    assert json.loads((folder / "config.json").read_text()).keys().isdisjoint({"tracker", "tracker_uri"})


@needs_server
@pytest.mark.slow
def test_a_server_that_does_not_answer_is_refused_before_any_folder(tmp_path):
    url = f"http://127.0.0.1:{free_port()}"
    refused = run_here(
        "experiments.fair_eval",
        "--dataset=glyphs",
        f"--runs_dir={tmp_path}",
        "--tracker=mlflow",
        f"--tracker_uri={url}",
    )
    check_clean_failure(refused, "Invalid --tracker_uri", url, "Start it (mlflow server)")
    assert list(tmp_path.iterdir()) == []
