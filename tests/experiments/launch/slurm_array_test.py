import json

import pytest

from common.errors import InvalidInput
from experiments.launch import slurm_array
from experiments.launch.slurm_array import SlurmArray, UnitNeeds


class PlayedQueue:
    """A queue whose jobs go through states that the test gives; `finish` writes the unit's result."""

    def __init__(self, monkeypatch):
        self.states, self.submitted, self.looks = {}, [], 0
        self.then = lambda look: None
        monkeypatch.setattr(slurm_array, "SECONDS_BETWEEN_LOOKS", 0.0)
        monkeypatch.setattr(slurm_array, "queued_jobs", self.look)
        monkeypatch.setattr(slurm_array, "submit", self.submit)

    def submit(self, functions, needs, folder, name):
        number = len(self.submitted) + 1
        self.submitted.append([function.log.stem for function in functions])
        jobs = [f"{number}_{index}" for index in range(len(functions))]
        self.states |= dict.fromkeys(jobs, "PENDING")
        return jobs

    def look(self, name):
        self.looks += 1
        assert self.looks < 100, "nothing ends"
        self.then(self.looks)
        return dict(self.states)


@pytest.fixture
def queue(monkeypatch):
    return PlayedQueue(monkeypatch)


def finish(task):
    task.folder.mkdir(parents=True, exist_ok=True)
    (task.folder / "result.json").write_text('{"status": "finished"}')


def test_an_array_is_submitted_followed_and_told_about(queue, small_task, tmp_path, capsys):
    tasks = [small_task(f"unit{index}") for index in range(3)]

    def then(look):
        if look == 2:
            queue.states |= {"1_0": "RUNNING", "1_1": "RUNNING"}
        if look == 3:
            queue.states["1_0"] = "PENDING"
            finish(tasks[1])
            del queue.states["1_1"]  # forgotten
        if look == 4:
            queue.states |= {"1_0": "COMPLETED", "1_2": "COMPLETED"}
            finish(tasks[0])
            finish(tasks[2])

    queue.then = then
    assert SlurmArray(UnitNeeds(), tmp_path / "launch").run(tasks) == []
    assert [len(array) for array in queue.submitted] == [3]
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("submitted 3 unit(s) as job 1")
    assert "requeued unit0 (job 1_0)" in said
    assert said[-1].endswith("[3/3]")
    assert SlurmArray(UnitNeeds(), tmp_path / "launch").run(tasks) == [], "nothing is left to do"
    assert len(queue.submitted) == 1


@pytest.mark.parametrize(
    ("state", "arrays"),
    [
        ("PREEMPTED", 3),
        ("NODE_FAIL", 3),
        ("TIMEOUT", 3),
        (None, 3),
        ("CANCELLED", 1),
        ("FAILED", 1),
        ("OUT_OF_MEMORY", 1),
    ],
)
def test_lost_jobs_are_started_again_so_often_and_others_are_named(state, arrays, queue, small_task, tmp_path):
    def then(look):
        for job in list(queue.states):
            if state is None:
                del queue.states[job]
            else:
                queue.states[job] = state

    queue.then = then
    (tmp_path / "launch").mkdir()
    task = small_task("unit")
    (tmp_path / "launch" / task.log_name).write_text("error: no data\n")
    (failure,) = SlurmArray(UnitNeeds(retries=2), tmp_path / "launch").run([task])
    assert len(queue.submitted) == arrays
    wanted = {"FAILED": "job 1_0: no data", None: "job 3_0 ended as GONE"}.get(state, f"ended as {state}")
    assert wanted in failure.reason


def test_the_same_command_follows_jobs_that_are_under_way(queue, small_task, tmp_path, capsys):
    tasks = [small_task(f"unit{index}") for index in range(2)]

    def interrupted(look):
        queue.states["1_0"] = "RUNNING"
        if look == 3:
            raise KeyboardInterrupt

    queue.then = interrupted
    with pytest.raises(KeyboardInterrupt):
        SlurmArray(UnitNeeds(), tmp_path / "launch").run(tasks)
    assert "Jobs 1 stay in the queue" in capsys.readouterr().err
    queue.states["1_1"] = "CANCELLED"

    def ends(look):
        if look == 6:
            finish(tasks[0])
            finish(tasks[1])
            queue.states |= {"1_0": "COMPLETED", "2_0": "COMPLETED"}

    queue.then = ends
    assert SlurmArray(UnitNeeds(), tmp_path / "launch").run(tasks) == []
    assert [len(array) for array in queue.submitted] == [2, 1], "the cancelled one alone is submitted again"
    assert "unit0: job 1_0 is under way already" in capsys.readouterr().err
    assert sorted(json.loads((tmp_path / "launch" / "slurm_jobs.json").read_text()).values()) == ["1_0", "2_0"]


def test_a_job_that_still_exports_its_model_is_not_done(queue, small_task, tmp_path):
    task = small_task("unit")

    def then(look):
        queue.states["1_0"] = "RUNNING"
        finish(task)
        if look == 8:
            queue.states["1_0"] = "COMPLETED"

    queue.then = then
    assert SlurmArray(UnitNeeds(), tmp_path / "launch").run([task]) == []
    assert queue.looks == 8


def test_a_queue_that_does_not_answer_is_asked_again_and_given_up_at_last(queue, small_task, tmp_path, monkeypatch):
    monkeypatch.setattr(slurm_array, "UNREAD_QUEUES", 4)

    def then(look):
        if look not in (1, 4):  # one answer between begins the count anew
            raise InvalidInput("Slurm's queue cannot be read: no controller")

    queue.then = then
    with pytest.raises(InvalidInput, match="no controller"):
        SlurmArray(UnitNeeds(), tmp_path / "launch").run([small_task("unit")])
    assert queue.looks == 8
