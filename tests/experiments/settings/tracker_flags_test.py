import pytest
from absl import flags
from absl.testing import flagsaver

from common.errors import InvalidInput
from common.training.trackers import TrackerChoice
from experiments.settings import tracker_flags
from tests.support.command_line import without_flags


@pytest.fixture(autouse=True)
def defined():
    with without_flags():
        tracker_flags.define_tracker_flags()
        yield


def chosen(*arguments, trains=True):
    with flagsaver.flagsaver():
        flags.FLAGS(["command", *arguments])
        return tracker_flags.tracker_from_flags(flags.FLAGS, "glyphs", trains, tracker_flags.TRAINS_NOTHING)


def test_without_flags_it_is_tensorboard():
    assert chosen() == TrackerChoice("tensorboard", project="glyphs")
    assert chosen(trains=False).kind == "tensorboard"
    assert chosen("--tracker=none").kind == "none"


def test_server_and_project_have_their_defaults(monkeypatch):
    monkeypatch.setattr(TrackerChoice, "check", lambda choice: None)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://one:5000")
    assert chosen("--tracker=mlflow") == TrackerChoice("mlflow", "http://one:5000", "glyphs")
    given = chosen("--tracker=mlflow", "--tracker_uri=http://two:5000", "--tracker_project=mine")
    assert given == TrackerChoice("mlflow", "http://two:5000", "mine")
    assert chosen("--tracker=wandb", "--tracker_project=mine") == TrackerChoice("wandb", "", "mine")


@pytest.mark.parametrize(
    ("arguments", "trains", "message"),
    [
        (["--tracker=mlfow"], True, "Invalid --tracker: received 'mlfow', expected one of .* Did you mean mlflow"),
        (["--tracker_uri=http://a"], True, "--tracker_uri would have no effect without --tracker=mlflow. Add that"),
        (["--tracker=wandb", "--tracker_uri=http://a"], True, "--tracker_uri would have no effect without"),
        (["--tracker=none", "--tracker_project=a"], True, "without --tracker=mlflow or --tracker=wandb"),
        (["--tracker=none"], False, "--tracker=none would have no effect: --report_only trains nothing"),
        (["--tracker=mlflow"], True, "received no address, expected that of a server: give --tracker_uri"),
        (["--tracker=mlflow", "--tracker_uri=http://me:secret@a"], True, "received 'a', expected an address without a"),
    ],
)
def test_what_would_have_no_effect_or_cannot_work_is_refused(arguments, trains, message, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with pytest.raises(InvalidInput, match=message) as raised:
        chosen(*arguments, trains=trains)
    assert "secret" not in str(raised.value)


def test_commands_of_single_runs_get_what_was_given():
    with flagsaver.flagsaver():
        flags.FLAGS(["command", "--tracker=mlflow", "--tracker_uri=http://a:1"])
        given = {
            name: value for name, value in tracker_flags.given_tracker_flags(flags.FLAGS).items() if value is not None
        }
    assert given == {"tracker": "mlflow", "tracker_uri": "http://a:1"}
