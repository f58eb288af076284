import pytest
import tensorflow as tf

from common.training.trackers.tensorboard_tracker import TensorBoardTracker
from common.training.trackers.tracked_run import tensorboard_run


def points(folder):
    found = []
    for path in sorted((folder / "tensorboard").glob("events.out.tfevents*")):
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            found += [(event.step, one.tag, float(tf.make_ndarray(one.tensor))) for one in event.summary.value]
    return found


def test_a_resumed_run_has_each_step_once(tmp_path):
    first = tensorboard_run(tmp_path)
    first.start()
    for step in (2, 4):
        first.log({"loss": step / 8, "validation/MAP@R": 0.5}, step)
    first.finish("stopped")
    second = tensorboard_run(tmp_path)
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
    assert TensorBoardTracker(tmp_path).start(None, "") == {2}


@pytest.mark.parametrize("told", [[], [2]])
def test_a_run_without_an_evaluation_leaves_no_file(tmp_path, told):
    tracked = tensorboard_run(tmp_path)
    tracked.start()
    for step in told:
        tracked.log({"loss": 1.0}, step)
    tracked.finish("finished")
    assert len(list(tmp_path.iterdir())) == len(told)
