"""Test files in a forked process that has imported TensorFlow, not the project."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from typing import NamedTuple

import pytest

import tests

PASSED, FAILED, TOO_LONG, DIED = "passed", "failed", "time limit", "died"
_FAILED_STATUS = (pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED)  # interrupted: a file cannot be imported


class Outcome(NamedTuple):
    """The outcome of the tests."""

    what: str  # `PASSED`, `FAILED`, `TOO_LONG` or `DIED`
    failed: tuple[str, ...]  # names of the tests that failed
    seconds: float


class ForkedTests:
    """Runs tests of a tree in a separate process.

    No thread of this process may run code of the project.

    Args:
        tree: the root of a copy of the project; modules are imported from there.
        tests: test files, or names of single tests.
        limit: seconds after which the process is killed.
        log: file for the tests' output.
        stop_at_first: bool: ends with the first test that fails.
    """

    def __init__(
        self, tree: pathlib.Path, tests: Sequence[str], limit: float, log: pathlib.Path, stop_at_first: bool = True
    ):
        self._report, self._limit, self._begin = log.with_suffix(".json"), limit, time.monotonic()
        self._report.unlink(missing_ok=True)
        sys.stdout.flush()
        sys.stderr.flush()
        self._process = os.fork()
        if not self._process:
            _run(tree, [*tests, *(["-x"] if stop_at_first else [])], log, self._report)

    def poll(self) -> Outcome | None:
        """Return the outcome, or None while the tests run."""
        seconds = time.monotonic() - self._begin
        if not os.waitpid(self._process, os.WNOHANG)[0]:
            if seconds <= self._limit:
                return None
            self.stop()
            return Outcome(TOO_LONG, (), seconds)
        try:
            report = json.loads(self._report.read_text())
        except FileNotFoundError:
            return Outcome(DIED, (), seconds)
        known = {pytest.ExitCode.OK: PASSED, **dict.fromkeys(_FAILED_STATUS, FAILED)}
        return Outcome(known.get(report["status"], DIED), tuple(report["failed"]), seconds)

    def stop(self) -> None:
        """Kill the tests and the processes that they have started."""
        with contextlib.suppress(ProcessLookupError):  # of its first moments, when the group is not there yet
            os.killpg(self._process, signal.SIGKILL)
        os.kill(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)

    def wait(self) -> Outcome:
        """Wait for the outcome and return it."""
        while (outcome := self.poll()) is None:
            time.sleep(0.02)
        return outcome


class _Recorder:
    """Keeps the names of failing tests; tests marked slow run last."""

    def __init__(self):
        self.failed: list[str] = []

    def pytest_collection_modifyitems(self, items):
        items.sort(key=lambda item: item.get_closest_marker("slow") is not None)

    def pytest_runtest_logreport(self, report):
        self._note(report)

    def pytest_collectreport(self, report):
        self._note(report)

    def _note(self, report):
        if report.failed and report.nodeid not in self.failed:
            self.failed.append(report.nodeid)


def _run(tree: pathlib.Path, arguments: list[str], log: pathlib.Path, report: pathlib.Path) -> None:
    """Run the tests in the forked process; never returns."""
    try:
        os.setsid()  # the tests' own processes end with it
        output = os.open(log, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
        os.dup2(output, 1)
        os.dup2(output, 2)
        _move_to(tree)
        recorder = _Recorder()
        options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", f"--rootdir={tree}"]
        status = pytest.main([*options, *arguments], plugins=[recorder])
        report.write_text(json.dumps({"status": int(status), "failed": recorder.failed}))
    finally:
        if sys.exc_info()[0]:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)  # no clean-up of what belongs to the process before the fork


def _move_to(tree: pathlib.Path) -> None:
    """Import from the tree from now on, without byte code.

    A bug may have the size of the code that it replaces.
    """
    left_behind = ("", os.getcwd(), str(pathlib.Path(__file__).resolve().parent.parent))
    packages = {path.parent.name for path in tree.glob("*/__init__.py")}
    for name in list(sys.modules):
        if name.partition(".")[0] in packages:
            del sys.modules[name]
    os.chdir(tree)
    tests.__path__ = [str(tree / "tests")]  # alone: tf2onnx installs a `tests/common.py`
    sys.path[:] = [str(tree), *(path for path in sys.path if path not in left_behind)]
    sys.dont_write_bytecode = True
    os.environ.update(PYTHONPATH=str(tree), PYTHONDONTWRITEBYTECODE="1")
