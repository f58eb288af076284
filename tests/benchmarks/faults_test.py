import json

import numpy as np
import pytest
import tensorflow as tf

from benchmarks.faults import CHECKPOINT, FINISHED, KILLED, KINDS, PROCESSES, Fault, Harness, signature, summary
from common.records import RunDirectory


@pytest.mark.slow
@pytest.mark.skipif(tf.__version__ < "2.16", reason="bit-exact resuming is promised on the default stack")
@pytest.mark.parametrize("kinds", [(CHECKPOINT, PROCESSES), pytest.param(KINDS, marks=pytest.mark.release)])
def test_nothing_is_lost_or_wrong_after_some_faults(kinds, tmp_path):
    """The sample has those that no test of a command has: they are killed, and told to end, elsewhere."""
    harness = Harness(tmp_path, ["c1+xbm+gap"], 0, kinds)
    harness.run(len(kinds))
    assert [fault for fault in harness.faults if fault.outcome is None] == []
    assert harness.unequal == []
    _, figures = summary(harness.faults, harness.unequal)
    assert figures == {"faults": len(kinds), "kinds": len(kinds), "lost_or_wrong": 0}


def test_what_is_not_documented_or_not_equal_counts():
    faults = [Fault("SIGKILL", KILLED, ""), Fault("SIGKILL", FINISHED, ""), Fault("disk full", None, "hangs")]
    rows, figures = summary(faults, unequal=[1])
    assert rows == [
        ["SIGKILL", FINISHED, 1, 0],
        ["SIGKILL", KILLED, 1, 1],
        ["disk full", "NOT DOCUMENTED", 1, 1],
    ]
    assert figures == {"faults": 3, "kinds": 2, "lost_or_wrong": 2}
    assert len(KINDS) == 11


@pytest.fixture
def run(tmp_path):
    run = RunDirectory(tmp_path / "run", {})
    run.append_metrics({"step": 4, "loss": 1.0, "seconds": 2.0})
    arrays = {"queries": np.arange(2000, dtype=np.float32)}
    run.write_result({"test": {"MAP@R": 0.5}, "train_seconds": 3.0}, arrays, [np.zeros(3, np.float32)])
    return run


def test_a_signature_sees_every_figure_and_every_bit(run):
    before = signature(run.path)
    result = json.loads((run.path / "result.json").read_text())
    (run.path / "result.json").write_text(json.dumps({**result, "train_seconds": 4.0}))
    assert signature(run.path) == before
    run.write_result({"test": {"MAP@R": 0.6}}, {"queries": np.arange(2000, dtype=np.float32)}, [np.zeros(3)])
    assert {key for key, value in signature(run.path).items() if before[key] != value} == {"test", "weights.npz 00000"}
