import signal
import subprocess
import sys
import time

import pytest

from experiments.launch import unit_job
from experiments.launch.unit_job import UnitJob
from tests.support.served_process import ROOT

RUN = """
import ast, pathlib, sys
from experiments.launch.unit_job import UnitJob
arguments, log = ast.literal_eval(sys.argv[1]), pathlib.Path(sys.argv[2])
print(sorted({"tensorflow", "numpy", "absl"} & set(sys.modules)), UnitJob(arguments, log, 3, (sys.executable,), ".")())
"""


def start(task, log):
    return subprocess.Popen(
        [sys.executable, "-c", RUN, repr(task.arguments), str(log)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_unit_runs_with_its_threads_and_nothing_heavy_beside_it(small_task, tmp_path):
    task = small_task("good")
    said, errors = start(task, tmp_path / "log").communicate()
    assert said == "[] 0\n", errors
    assert task.is_finished()
    assert "with 3 threads" in (tmp_path / "log").read_text()


def test_a_failed_unit_fails_its_job(small_task, tmp_path):
    process = start(small_task("bad", 1, 0, "no data"), tmp_path / "log")
    assert "the unit ended with exit code 2; see" in process.communicate()[1]
    assert process.returncode == 1


def test_sigterm_ends_the_unit_and_it_resumes(small_task, tmp_path, steps_of):
    task = small_task("stopped", 20, 0.05)
    process = start(task, tmp_path / "log")
    while not (task.folder / "checkpoint").exists():
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 128 + signal.SIGTERM
    assert not task.is_held()
    assert not task.is_finished()
    assert start(task, tmp_path / "log").wait(20) == 0
    assert steps_of(tmp_path / "log")[1] > 0


def test_a_checkpoint_ends_the_unit_and_is_the_same_unit(small_task, tmp_path):
    pytest.importorskip("submitit", reason="submitit is not installed (pip install '.[slurm]')")
    task = small_task("unit", 1000, 0.05)
    job = UnitJob(task.arguments, tmp_path / "log", 1, (sys.executable,), ".")
    job._process = unit_job.worker_process.start_worker(task.arguments, tmp_path / "log", {}, (sys.executable,))
    again = job.checkpoint().function
    assert job._process.poll() is not None
    assert (again.arguments, again.log, again.threads) == (job.arguments, job.log, 1)
    assert again._process is None
