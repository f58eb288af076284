import sys

import pytest

from common.errors import InvalidInput
from common.training.trackers import RunDescription, TrackerChoice
from common.training.trackers.wandb_tracker import check_login, wandb
from tests.support import wandb_files

DESCRIPTION = RunDescription("c2+gap fold 0", "c2+gap-0123456789", {"learning_rate": 0.001}, {"fold": "0"})
RESULT = {"test": {"MAP@R": 0.25}, "validation": {"best": {"step": 4, "MAP@R": 0.5}}}


@pytest.fixture
def offline(tmp_path, monkeypatch):
    pytest.importorskip("wandb", reason="W&B's client is not installed (pip install '.[wandb]')")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    return tmp_path


def followed_until_it_is_stopped(tracked):
    with tracked.followed():
        tracked.log({"loss": 2.0, "validation/MAP@R": 0.5}, 2)
        tracked.log({"loss": 1.0, "validation/MAP@R": 0.25}, 4)
        raise KeyboardInterrupt


def test_the_files_of_a_resumed_run_have_its_values_once(offline):
    folder = offline / "run"
    folder.mkdir()
    choice = TrackerChoice("wandb", project="glyphs")
    choice.check()
    tracked = choice.tracked(DESCRIPTION, folder)
    with pytest.raises(KeyboardInterrupt):
        followed_until_it_is_stopped(tracked)
    (folder / "metrics.jsonl").write_text(
        '{"step": 2, "loss": 2.0, "validation": {"MAP@R": 0.5}}\n{"step": 4, "loss": 1.0, "validation": {}}\n'
    )
    again = choice.tracked(DESCRIPTION, folder)
    again.start()
    again.log({"loss": 1.0, "validation/MAP@R": 0.25}, 4)
    again.log({"loss": 0.5, "validation/MAP@R": 0.75}, 6)
    again.end(RESULT)
    first, second = wandb_files.runs(offline)
    assert [*wandb_files.history(first), *wandb_files.history(second)] == [
        {"_step": 2, "loss": 2.0, "validation/MAP@R": 0.5},
        {"_step": 4, "loss": 1.0, "validation/MAP@R": 0.25},
        {"_step": 6, "loss": 0.5, "validation/MAP@R": 0.75},
    ]
    assert wandb_files.summary(second)["test/MAP@R"] == 0.25
    described = [[record.run for record in each if record.HasField("run")][0] for each in (first, second)]
    assert described[0].run_id == described[1].run_id
    assert (described[0].display_name, described[0].run_group) == ("c2+gap fold 0", "c2+gap-0123456789")
    assert list(described[0].tags) == ["fold:0"]
    assert {item.key: item.value_json for item in described[0].config.update}["learning_rate"] == "0.001"


def test_online_without_a_login_is_refused(offline, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "online")
    monkeypatch.setenv("NETRC", str(offline / "netrc"))
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.delenv("WANDB_IDENTITY_TOKEN_FILE", raising=False)
    with pytest.raises(InvalidInput, match="found no login: received neither .* expected one of them.*WANDB_MODE=offl"):
        check_login()
    (offline / "netrc").write_text("machine api.wandb.ai login user password 0123\n")
    check_login()


def test_a_mode_that_follows_nothing_is_refused(offline, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "disabled")
    with pytest.raises(InvalidInput, match="Invalid WANDB_MODE: received 'disabled', expected online or offline"):
        check_login()


def test_a_missing_client_names_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(InvalidInput, match=r"pip install 'deep-metric-learning\[wandb\]"):
        wandb()
