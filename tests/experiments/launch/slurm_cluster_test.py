"""An array on a real Slurm of one node, which this test starts and ends: requeued, failed and finished units."""

import json
import subprocess
import threading
import time

import pytest

from experiments.launch import slurm_array
from experiments.launch.slurm_array import SlurmArray, UnitNeeds
from tests.support import slurm_cluster

pytest.importorskip("submitit", reason="submitit is not installed: pip install '.[slurm]'")
pytestmark = pytest.mark.skipif(slurm_cluster.why_not() is not None, reason=f"no Slurm: {slurm_cluster.why_not()}")


@pytest.fixture
def cluster(monkeypatch):
    with slurm_cluster.slurm_cluster() as environment:
        for name in ("PATH", "SLURM_CONF"):
            monkeypatch.setenv(name, environment[name])
        monkeypatch.setattr(slurm_array, "SECONDS_BETWEEN_LOOKS", 0.3)
        yield


def requeue(array, task):
    """Takes the job of a unit back into the queue in the middle of its run, and lets it start again at once."""
    while not (task.folder / "checkpoint").exists():
        time.sleep(0.05)
    job = json.loads((array.folder / "slurm_jobs.json").read_text())[task.log_name]
    subprocess.run(["scontrol", "requeue", job], check=True)
    while slurm_array.queued_jobs(array.name)[job] != "PENDING":
        time.sleep(0.05)
    time.sleep(1)  # the launcher looks at the queue meanwhile
    subprocess.run(["scontrol", "update", f"jobid={job}", "StartTime=now"], check=True)


def test_an_array_ends_with_all_results_but_the_failed_ones(cluster, small_task, tmp_path, steps_of, capsys):
    stopped, bad = small_task("stopped", 40, 0.1), small_task("bad", 1, 0, "no such data")
    tasks = [stopped, bad, *(small_task(f"good{index}") for index in range(3))]
    array = SlurmArray(UnitNeeds(cpus=1, gpus=0, memory_gb=0.1, minutes=5), tmp_path / "runs" / "launch")
    helper = threading.Thread(target=requeue, args=(array, stopped))
    helper.start()
    (failure,) = array.run(tasks)
    helper.join()
    assert failure.task == bad
    assert failure.reason.endswith("no such data")
    assert all(task.is_finished() for task in tasks if task is not bad)
    begun = steps_of(array.folder / stopped.log_name)
    assert begun[0] == 0
    assert 0 < begun[1] < 40, "resumed from its checkpoint"
    said = capsys.readouterr().err
    assert "submitted 5 unit(s) as job" in said
    assert "requeued stopped" in said
    assert "[5/5]" in said


def test_what_slurm_refuses_is_said(cluster, small_task, tmp_path):
    needs = UnitNeeds(cpus=1, gpus=0, memory_gb=0.1, partition="nowhere")
    with pytest.raises(slurm_array.InvalidInput, match="Slurm refuses the jobs: .*partition"):
        SlurmArray(needs, tmp_path / "launch").run([small_task("unit")])
