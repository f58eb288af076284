import pytest

from common.training.trackers import TENSORBOARD, RunDescription, TrackerChoice
from common.training.trackers.tensorboard_tracker import TensorBoardTracker
from common.training.trackers.tracker import NoTracker


@pytest.mark.parametrize(("choice", "kind"), [(TENSORBOARD, TensorBoardTracker), (TrackerChoice("none"), NoTracker)])
def test_what_needs_no_library_needs_no_check_and_keeps_no_key(choice, kind, tmp_path):
    choice.check()
    tracked = choice.tracked(RunDescription("a run"), tmp_path)
    assert isinstance(tracked.tracker, kind)
    assert not tracked.is_incomplete
    assert not choice.takes_pictures
    tracked.start()
    tracked.end({})
    assert list(tmp_path.iterdir()) == []
