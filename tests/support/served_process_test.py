"""A forked command is a process like any other: arguments, folder, environment, streams, signals, exit codes."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.support.command_line import run_program, start_program
from tests.support.served_process import command_server, environment

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere each command is a fresh interpreter")
REPORT = """
import json, os, sys
print(json.dumps([sys.argv, os.getcwd(), os.environ.get("A_VARIABLE"), sys.path[0], sys.stdin.read(), __name__]))
print("to the error stream", file=sys.stderr)
"""
PROJECT = ("common", "gsp_dml", "ccp_dml", "milbich_dml", "experiments", "photo_search", "benchmarks")


def test_arguments_folder_environment_and_streams_are_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("A_VARIABLE", "a value")
    finished = run_program(["-c", REPORT, "one", "--two=2"], cwd=tmp_path, text="typed in")
    assert finished.returncode == 0, finished.stderr
    expected = [["-c", "one", "--two=2"], str(tmp_path), "a value", "", "typed in", "__main__"]
    assert json.loads(finished.stdout) == expected
    assert finished.stderr == "to the error stream\n"


@pytest.mark.parametrize("fresh", [None, "for comparison"])
@pytest.mark.parametrize(
    ("program", "code", "error"),
    [
        ("", 0, ""),
        ("import sys; sys.exit(3)", 3, ""),
        ("raise SystemExit('message')", 1, "message\n"),
        ("import atexit, sys; atexit.register(print, 'left', file=sys.stderr)", 0, "left\n"),
        ("1 / 0", 1, "ZeroDivisionError: division by zero\n"),
        ("raise KeyboardInterrupt", -signal.SIGINT, "KeyboardInterrupt\n"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM, ""),
    ],
)
def test_it_ends_as_a_fresh_interpreter_does(program, code, error, fresh):
    finished = run_program(["-c", program], fresh=fresh)
    assert finished.returncode == code
    assert finished.stderr.endswith(error)
    assert bool(finished.stderr) == bool(error)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_signals_reach_it(number):
    process = start_program(["-c", "import time; time.sleep(600)"])
    assert process.poll() is None
    assert process.pid != os.getpid()
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=0.05)
    process.send_signal(number)
    assert process.wait(timeout=60) == -number
    process.kill()  # of what has ended, nothing
    assert process.poll() == -number


def test_a_command_that_takes_too_long_is_killed(tmp_path):
    program = f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    with pytest.raises(subprocess.TimeoutExpired):
        run_program(["-c", program], timeout=1)
    number = int((tmp_path / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)


def test_libraries_are_there_and_nothing_of_this_project_is():
    program = "import json, sys, threading; print(json.dumps([sorted(sys.modules), threading.active_count()]))"
    modules, num_threads = json.loads(run_program(["-c", program]).stdout)
    assert {"tensorflow", "keras", "matplotlib.pyplot"} <= set(modules)
    assert [name for name in modules if name.split(".")[0] in PROJECT] == []
    assert num_threads == 1


def test_other_variables_that_libraries_read_take_another_interpreter(monkeypatch):
    assert command_server().serves(environment())
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    assert not command_server().serves(environment())
    process = start_program(["-c", ""])
    assert isinstance(process, subprocess.Popen)
    assert process.wait() == 0


def test_the_server_ends_with_who_started_it():
    start = "CommandServer(environment(), ()).pid"
    program = f"from tests.support.served_process import CommandServer, environment\nprint({start})"
    number = int(run_program(["-c", program], fresh="it starts a server of its own").stdout)
    deadline = time.monotonic() + 60
    while os.path.exists(f"/proc/{number}") and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not os.path.exists(f"/proc/{number}")
