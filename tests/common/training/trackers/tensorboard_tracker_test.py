import pytest
import tensorflow as tf

from common.training.trackers import RunDescription, TrackerChoice
from common.training.trackers.tensorboard_tracker import TensorBoardTracker


def points(folder):
    found = []
    for path in sorted((folder / "tensorboard").glob("events.out.tfevents*")):
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            found += [(event.step, one.tag, float(tf.make_ndarray(one.tensor))) for one in event.summary.value]
    return found


def test_a_resumed_run_has_each_step_once(tmp_path):
    first = TensorBoardTracker(tmp_path)
    first.start()
    for step in (2, 4):
        first.log({"loss": step / 8, "validation/MAP@R": 0.5}, step)
    first.finish("stopped")
    second = TensorBoardTracker(tmp_path)
    second.start()
    for step in (4, 6):
        second.log({"loss": step / 8}, step)
    second.finish("stopped")
    assert sorted(points(tmp_path)) == [
        (2, "loss", 0.25),
        (2, "validation/MAP@R", 0.5),
        (4, "loss", 0.5),
        (4, "validation/MAP@R", 0.5),
        (6, "loss", 0.75),
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["tensorboard"]


def test_a_file_whose_end_was_cut_off_counts_up_to_there(tmp_path):
    tracker = TensorBoardTracker(tmp_path)
    for step in (2, 4):
        tracker.log({"loss": 1.0}, step)
    tracker.finish("stopped")
    (path,) = (tmp_path / "tensorboard").iterdir()
    path.write_bytes(path.read_bytes()[:-10])
    assert TensorBoardTracker(tmp_path)._send_start("") == {2}


@pytest.mark.parametrize(("kind", "told"), [("tensorboard", []), ("tensorboard", [2]), ("none", [2])])
def test_only_evaluations_of_a_followed_run_leave_a_file_and_no_key_is_kept(tmp_path, kind, told):
    choice = TrackerChoice(kind)
    choice.check()
    tracked = choice.tracked(RunDescription("a run"), tmp_path)
    assert not choice.takes_pictures
    tracked.start()
    for step in told:
        tracked.log({"loss": 1.0}, step)
    tracked.end({})
    assert not tracked.is_incomplete
    assert [path.name for path in tmp_path.iterdir()] == (["tensorboard"] if told and kind != "none" else [])
