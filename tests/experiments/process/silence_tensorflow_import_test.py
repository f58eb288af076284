"""Standard streams that are closed when a command begins."""

import json
import subprocess

import numpy as np
import pytest

from experiments.process.silence_tensorflow_import import open_closed_streams
from tests.command_line import ROOT, command, environment, run_program

PROGRAM = """
import json, os, sys
kept = os.dup(1)
for number, name in {closed}:
    os.close(number)
    setattr(sys, name, None)
from experiments.process.silence_tensorflow_import import silence_tensorflow_import
with silence_tensorflow_import():
    pass
print("out", flush=True), print("errors", file=sys.stderr, flush=True), sys.stdin.read()
opened = os.open(os.devnull, os.O_RDONLY)
os.write(kept, json.dumps([opened > 2, *(os.readlink("/proc/self/fd/%d" % number) for number in range(3))]).encode())
"""


@pytest.mark.parametrize("numbers", [(), (0,), (1,), (2,), (0, 2), (0, 1, 2)])
def test_closed_streams_become_dev_null_and_no_file_takes_their_number(numbers):
    closed = [(number, ("stdin", "stdout", "stderr")[number]) for number in numbers]
    finished = run_program(["-c", PROGRAM.format(closed=closed)])
    is_free, *places = json.loads(finished.stdout.removeprefix("out\n"))
    assert finished.returncode == 0
    assert is_free
    assert [number for number, place in enumerate(places) if place == "/dev/null"] == list(numbers)
    assert ("errors" in finished.stderr) == (2 not in numbers)


def test_a_command_without_an_error_output_does_its_work(tmp_path):
    labels = np.repeat(np.arange(5), 4)
    np.savez(tmp_path / "x.npz", embeddings=np.random.default_rng(0).normal(size=(20, 3)), labels=labels)
    line = " ".join(command("experiments.evaluate", f"--embeddings={tmp_path}/x.npz"))
    settings = {"cwd": ROOT, "env": environment(), "capture_output": True, "text": True, "timeout": 300}
    finished = subprocess.run(["bash", "-c", f"{line} 2>&-"], **settings)
    assert finished.returncode == 0
    assert "20 queries" in finished.stdout
    assert subprocess.run(["bash", "-c", f"{line} --recall_at=0 2>&-"], **settings).returncode == 2


def test_streams_that_are_open_are_left_alone(capsys):
    open_closed_streams()
    print("here")
    assert capsys.readouterr().out == "here\n"
