import json

import numpy as np
import pytest

from common.records import RunDirectory
from common.training import train_in
from common.training.trackers import FAILED, FINISHED, STOPPED, EndedFromOutside, RunDescription, TrackedRun
from tests.common.training.trained_run_test import prepared

RESULT = {"test": {"MAP@R": 0.25, "name": "x"}, "validation": {"best": {"step": 4, "MAP@R": 0.5}}}


class Memory(TrackedRun):
    """Remembers what it is told, over the processes that a list stands for.

    Args:
        told: what has been told.
        knows: whether it can tell which steps it has.
        fails_at: the number of the call that fails, and all after it.
    """

    def __init__(self, folder, told, description=RunDescription("a run"), knows=True, fails_at=None):  # noqa: B008
        super().__init__(description, folder, "memory")
        self.told, self.knows, self.fails_at, self.calls = told, knows, fails_at, 0

    def _hear(self, *what):
        self.calls += 1
        if self.fails_at is not None and self.calls >= self.fails_at:
            raise ConnectionError("the server has gone\nand more lines")
        self.told.append(what)

    def _send_start(self, key):
        self._hear("start", self.description.name, key)
        return {what[2] for what in self.told if what[0] == "log"} if self.knows else None

    def _send(self, values, step):
        self._hear("log", dict(values), step)

    def _send_result(self, values):
        self._hear("result", dict(values))

    def _send_picture(self, path):
        self._hear("picture", path.name)

    def _send_end(self, status):
        self._hear("finish", status)


def of(told, kind):
    return [what[1:] for what in told if what[0] == kind]


def append(folder, *steps):
    with open(folder / "metrics.jsonl", "a") as file:
        for step in steps:
            file.write(
                json.dumps({"step": step, "loss": step / 2, "learning_rate": 0.01, "validation": {"MAP@R": 0.5}}) + "\n"
            )


@pytest.mark.parametrize("knows", [True, False])
def test_a_resumed_run_has_the_same_key_and_each_step_once(tmp_path, knows):
    told = []
    first = Memory(tmp_path, told, knows=knows)
    first.start()
    for step in (2, 4, 6):
        append(tmp_path, step)
        first.log({"loss": step / 2}, step)
    second = Memory(tmp_path, told, knows=knows)  # the first was killed, and its last checkpoint was at step 2
    second.start()
    for step in (4, 6, 8, 8):
        second.log({"loss": step / 2}, step)
    starts = of(told, "start")
    assert len(starts) == 2
    assert starts[0] == starts[1]
    assert [step for _, step in of(told, "log")] == [2, 4, 6, 8]


def test_what_the_tracker_missed_is_told_by_the_next_process(tmp_path):
    told = []
    first = Memory(tmp_path, told, fails_at=3)  # after the start and one step
    first.start()
    for step in (2, 4, 6):
        append(tmp_path, step)
        first.log({"loss": step / 2}, step)
    first.end(RESULT)
    assert [step for _, step in of(told, "log")] == [2]
    again = Memory(tmp_path, told)
    assert again.is_incomplete
    again.complete(RESULT)
    assert [step for _, step in of(told, "log")] == [2, 4, 6]
    assert of(told, "log")[1] == ({"loss": 2.0, "learning_rate": 0.01, "validation/MAP@R": 0.5}, 4)
    assert of(told, "result") == [({"test/MAP@R": 0.25, "best/step": 4.0, "best/MAP@R": 0.5},)]
    assert told[-1] == ("finish", FINISHED)
    before = len(told)
    Memory(tmp_path, told).complete(RESULT)
    assert len(told) == before


def test_a_run_that_was_never_followed_is_not_completed(tmp_path):
    told = []
    append(tmp_path, 2)
    Memory(tmp_path, told).complete(RESULT)
    assert told == []


def test_a_picture_is_told_again_only_where_it_has_changed(tmp_path):
    told, picture = [], tmp_path / "curves.png"
    for content in (b"one", b"one", b"two"):
        picture.write_bytes(content)
        Memory(tmp_path, told).picture(picture)
    assert of(told, "picture") == [("curves.png",), ("curves.png",)]


@pytest.mark.parametrize(
    ("error", "status"),
    [(KeyboardInterrupt, STOPPED), (EndedFromOutside, STOPPED), (ValueError, FAILED)],
)
def test_the_tracker_hears_how_a_run_ends(tmp_path, error, status):
    told = []
    with pytest.raises(error), Memory(tmp_path, told).followed():
        raise error
    assert told[-1] == ("finish", status)


@pytest.fixture(scope="module")
def whole(functions_run_eagerly, tmp_path_factory):
    """A run that no tracker follows, and its result."""
    run = RunDirectory(tmp_path_factory.mktemp("whole"), {})
    return run, train_in(run, 3, prepared([]))


@pytest.mark.usefixtures("functions_run_eagerly")
@pytest.mark.parametrize("fails_at", [1, 3, 5])
def test_a_tracker_that_fails_warns_once_and_changes_no_result(whole, tmp_path, capsys, fails_at):
    """Of six calls: start, two evaluations, result, end, and whatever comes after."""
    whole, expected = whole
    run, told = RunDirectory(tmp_path / "run", {}), []
    result = train_in(run, 3, prepared([]), Memory(run.path, told, fails_at=fails_at))
    assert len(told) == fails_at - 1
    said = capsys.readouterr().err
    assert said.count("warning: ") == 1
    assert "Memory does not follow a run any more (ConnectionError: the server has gone)" in said
    measured = ("validation", "steps", "test", "seed")
    assert {name: result[name] for name in measured} == {name: expected[name] for name in measured}
    for kept, weight in zip(run.read_weights(), whole.read_weights(), strict=True):
        np.testing.assert_array_equal(kept, weight)
    assert not (run.path / "tensorboard").exists()
