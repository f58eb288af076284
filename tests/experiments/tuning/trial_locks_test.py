"""Locks of trials: one process holds each, and none is held by a process that has ended."""

import subprocess
import sys
import threading

from experiments.tuning.search import TrialLocks

HOLD = """
import pathlib, sys
from experiments.tuning.search import TrialLocks
lock = TrialLocks(pathlib.Path(sys.argv[1])).take(3)
print(lock is not None, flush=True)
sys.stdin.read()
"""


def test_a_trial_is_held_by_one_process_until_it_ends(tmp_path):
    locks = TrialLocks(tmp_path / "search")
    command = [sys.executable, "-c", HOLD, str(tmp_path / "search")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "True\n"
        assert locks.take(3) is None
        with locks.take(4):
            pass
        other.kill()
    with locks.take(3) as lock:
        assert lock is not None
        assert locks.take(3) is None
    with locks.take(3):
        pass


def test_choosing_waits(tmp_path):
    has_chosen = threading.Event()

    def choose():
        with TrialLocks(tmp_path).alone():
            has_chosen.set()

    with TrialLocks(tmp_path).alone():
        thread = threading.Thread(target=choose)
        thread.start()
        assert not has_chosen.wait(0.2)
    assert has_chosen.wait(10)
    thread.join()
