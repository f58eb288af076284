import pytest

from common.training.trackers import TENSORBOARD, TrackerChoice
from common.training.trackers.tracked_run import TrackedRun
from experiments.runs.tracked_units import follow_pictures, tracked_unit
from experiments.settings.recipes import resolve
from tests.common.training.trackers.tracked_run_test import Memory


class Remembering(TrackerChoice):
    """A choice whose tracker is a list."""

    told = []

    def tracked(self, description, folder):
        return TrackedRun(Memory(self.told), description, folder)


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
