"""Locks of trials: one process holds each, and none is held by a process that has ended."""

import subprocess
import sys

from experiments.tuning.search import take_trial

HOLD = """
import pathlib, sys
from experiments.tuning.search import take_trial
lock = take_trial(pathlib.Path(sys.argv[1]), 3)
print(lock is not None, flush=True)
sys.stdin.read()
"""


def test_a_trial_is_held_by_one_process_until_it_ends(tmp_path):
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "True\n"
        assert take_trial(tmp_path, 3) is None
        with take_trial(tmp_path, 4):
            pass
        other.kill()
    with take_trial(tmp_path, 3) as lock:
        assert lock is not None
        assert take_trial(tmp_path, 3) is None
    with take_trial(tmp_path, 3):
        pass
