import json
import os
import signal
import subprocess
import sys
import time

import pytest

from common.commands.exit_code import Terminated
from experiments.launch import local_workers
from experiments.launch.local_workers import LocalWorkers, gpu_variables, threads_of_each, visible_gpus


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(local_workers, "SECONDS_BETWEEN_LOOKS", 0.02)
    monkeypatch.setattr(local_workers, "SECONDS_BETWEEN_LOCKS", 0.1)


def test_units_run_at_once_and_a_failed_one_stops_no_other(small_task, tmp_path, steps_of, capsys):
    done = small_task("finished")
    done.folder.mkdir(parents=True)
    (done.folder / "result.json").write_text('{"status": "finished"}')
    bad = small_task("bad", 1, 0, "no such data")
    tasks = [done, bad, *(small_task(f"good{index}", 4, 0.05) for index in range(3))]
    workers = LocalWorkers(2, 1, tmp_path / "logs")
    failures = workers.run(tasks)
    assert [(each.task, each.reason) for each in failures] == [(bad, "exit code 2: no such data")]
    assert all(task.is_finished() for task in tasks if task is not bad)
    assert not (tmp_path / "logs" / done.log_name).exists(), "a finished unit is not started"
    assert "with 1 threads" in (tmp_path / "logs" / tasks[-1].log_name).read_text()
    said = capsys.readouterr().err
    assert said.index("started  good0") < said.index("done     good0")
    assert "4 units, 2 at once, 1 thread(s) each" in said
    assert "[4/4]" in said
    assert "Memory: the largest process took" in said
    assert len(workers.run(tasks)) == 1, "a failure of the first call is none of the second"


def test_a_unit_takes_the_gpu_of_the_one_that_has_ended(small_task, tmp_path, monkeypatch):
    slots = []
    monkeypatch.setattr(local_workers, "gpu_variables", lambda slot, workers, gpus: slots.append(slot) or {})
    tasks = [small_task("short", 1), small_task("long", 30, 0.05), small_task("last")]
    LocalWorkers(2, 1, tmp_path / "logs").run(tasks)
    assert slots == [0, 1, 0]


def test_never_more_than_so_many_at_once(small_task, tmp_path, capsys):
    LocalWorkers(2, 1, tmp_path / "logs").run([small_task(f"unit{index}", 2, 0.05) for index in range(5)])
    running = most = 0
    for line in capsys.readouterr().err.splitlines():
        running += line.startswith("started") - line.startswith("done")
        most = max(most, running)
    assert (most, running) == (2, 0)


def test_a_unit_of_another_process_is_waited_for_and_not_started(small_task, tmp_path, steps_of, capsys):
    task = small_task("shared", 10, 0.1)
    other = subprocess.Popen([sys.executable, *task.arguments], stdout=subprocess.DEVNULL)
    while not task.is_held():
        time.sleep(0.01)
    assert LocalWorkers(2, 1, tmp_path / "logs").run([task, small_task("own")]) == []
    assert other.wait() == 0
    assert not (tmp_path / "logs" / task.log_name).exists()
    said = capsys.readouterr().err
    assert "shared: another process works on it" in said
    assert "done     shared (by another process)" in said


def test_a_unit_whose_other_process_was_killed_is_started(small_task, tmp_path, steps_of):
    task = small_task("orphan", 8, 0.1)
    other = subprocess.Popen([sys.executable, *task.arguments], stdout=subprocess.DEVNULL)
    while not (task.folder / "checkpoint").exists():
        time.sleep(0.01)
    timer = subprocess.Popen(["sh", "-c", f"sleep 0.3; kill -9 {other.pid}"])
    assert LocalWorkers(1, 1, tmp_path / "logs").run([task]) == []
    timer.wait()
    assert other.wait() == -signal.SIGKILL
    assert steps_of(tmp_path / "logs" / task.log_name)[0] > 0, "resumed from the other's checkpoint"


@pytest.mark.parametrize("error", [Terminated, KeyboardInterrupt])
def test_a_signal_ends_all_workers_and_the_same_call_resumes(error, small_task, tmp_path, steps_of):
    tasks = [small_task(f"unit{index}", 20, 0.05) for index in range(3)]

    def end(number, frame):
        raise error

    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, 0.6)
    with pytest.raises(error):
        LocalWorkers(2, 1, tmp_path / "logs").run(tasks)
    assert not any(task.is_held() or task.is_finished() for task in tasks)
    assert not tasks[2].folder.exists()
    assert LocalWorkers(2, 1, tmp_path / "logs").run(tasks) == []
    assert [json.loads((task.folder / "result.json").read_text())["steps"] for task in tasks] == [20, 20, 20]
    begun = steps_of(tmp_path / "logs" / tasks[0].log_name)
    assert begun[0] == 0
    assert begun[1] > 0


KILL_HOLDER = """
import os, pathlib, sys, time
folder = sys.argv[1]
while not os.path.exists(folder + "/checkpoint"):
    time.sleep(0.02)
for process in pathlib.Path("/proc").glob("[0-9]*"):
    if int(process.name) != os.getpid() and folder in (process / "cmdline").read_text().split("\\0"):
        os.kill(int(process.name), 9)
"""


def test_a_killed_worker_is_named(small_task, tmp_path):
    task = small_task("killed", 100, 0.1)
    timer = subprocess.Popen([sys.executable, "-c", KILL_HOLDER, str(task.folder)])
    (failure,) = LocalWorkers(1, 1, tmp_path / "logs").run([task])
    timer.wait()
    assert "signal 9" in failure.reason


def test_peak_memory_is_the_process_own():
    assert 1e7 < local_workers.peak_memory(os.getpid()) < 1e11
    assert local_workers.peak_memory(2**31) == 0


@pytest.mark.parametrize(
    ("workers", "threads", "environment", "expected"),
    [
        (2, 3, {"TF_NUM_INTRAOP_THREADS": "1"}, 3),
        (2, None, {"TF_NUM_INTRAOP_THREADS": "1"}, None),
        (10_000, None, {}, 1),
        (1, None, {}, len(os.sched_getaffinity(0))),
    ],
)
def test_threads_of_each_worker(workers, threads, environment, expected):
    assert threads_of_each(workers, threads, environment) == expected


def test_each_worker_gets_one_gpu():
    gpus = ["4", "6"]
    assert [gpu_variables(slot, 2, gpus) for slot in range(2)] == [{"CUDA_VISIBLE_DEVICES": name} for name in gpus]
    shared = gpu_variables(2, 3, gpus)
    assert shared == {"CUDA_VISIBLE_DEVICES": "4", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}
    assert gpu_variables(0, 2, []) == {}


def test_gpus_keep_the_names_of_the_environment(monkeypatch):
    monkeypatch.setattr("tensorflow.config.list_physical_devices", lambda kind: ["one", "two"])
    assert visible_gpus({}) == ["0", "1"]
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": "5,7"}) == ["5", "7"]
