"""Runs a command of this project as a user does: in this process, or in one of its own."""

from __future__ import annotations

import contextlib
import io
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from unittest import mock

from absl import app, flags
from absl.testing import flagsaver

from tests.support.served_process import ROOT, ServedProcess, command_server, environment

SMALL_COMMAND = "tests.experiments.small_command"
SHARED = ROOT.parent / "shared"
SMALL_PHOTOGRAPHS = [
    "--dataset=folder",
    "--backbone=resnet10",
    "--weights=none",
    "--nofrozen_batch_norm",
    "--image_size=32",
    "--embedding_dim=16",
    "--classes_per_batch=4",
    "--samples_per_class=2",
    "--learning_rate=0.001",
    "--warm_up_epochs=0",
    "--warm_up_steps=0",
    "--budget=smoke",
]

ONE_EVALUATION = ["--max_steps=2", "--steps_per_evaluation=2"]  # for what is asked of a finished run, however short


@contextlib.contextmanager
def without_flags() -> Iterator[None]:
    """Within it, flags are absl's own, as in a new process; those of other tests are back afterwards."""
    by_module = flags.FLAGS.flags_by_module_dict().items()
    own = {flag.name for module, defined in by_module if module.startswith("absl") for flag in defined}
    others = {name: flags.FLAGS[name] for name in flags.FLAGS if flags.FLAGS[name].name not in own}
    for name in others:
        delattr(flags.FLAGS, name)
    try:
        with flagsaver.flagsaver():
            yield
    finally:
        for name, flag in others.items():
            flags.FLAGS[name] = flag


def run_here(module: str, *arguments: str, cwd: str | os.PathLike = ".") -> subprocess.CompletedProcess:
    """`run_module` without the cost of a process: the same exit code and output, but an unexpected error is raised.

    Not for signals, worker processes and `--deterministic` (which stays on).
    """
    from tests.experiments.settings.plugin_tables import restored_tables

    output, errors, before, code = io.StringIO(), io.StringIO(), os.getcwd(), 0
    with contextlib.ExitStack() as stack:
        stack.enter_context(without_flags())
        stack.enter_context(restored_tables())
        stack.enter_context(mock.patch.object(app, "_run_init", lambda argv, parse: parse(argv)))
        stack.enter_context(mock.patch.object(sys, "argv", [module, *arguments]))
        stack.enter_context(contextlib.redirect_stdout(output))
        stack.enter_context(contextlib.redirect_stderr(errors))
        stack.callback(os.chdir, before)
        os.chdir(cwd)
        try:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        except SystemExit as ending:
            code = ending.code or 0
    return subprocess.CompletedProcess([module, *arguments], code, output.getvalue(), errors.getvalue())


def command(module: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", module, *arguments]


def start_program(
    arguments: list[str], cwd=ROOT, stdin=None, stdout=None, stderr=None, fresh: str | None = None
) -> subprocess.Popen | ServedProcess:
    """Starts `python ARGUMENTS`; standard streams are open files, by default nothing and nowhere.

    Args:
        arguments: `["-m", module, ...]`, `["-c", program, ...]`, or of a fresh one `[script, ...]`.
        fresh: why this one needs an interpreter that has imported nothing; None: it is forked from one that has
            imported TensorFlow and other libraries, but nothing of this project.
    """
    env = environment()
    with open(os.devnull, "r+b") as nowhere:
        streams = [stream or nowhere for stream in (stdin, stdout, stderr)]
        if fresh is None and sys.platform == "linux" and command_server().serves(env):
            return ServedProcess(arguments, cwd, env, streams)
        names = ("stdin", "stdout", "stderr")
        return subprocess.Popen([sys.executable, *arguments], cwd=cwd, env=env, **dict(zip(names, streams)))


def run_program(
    arguments: list[str], cwd=ROOT, timeout: float = 300, text: str = "", fresh: str | None = None
) -> subprocess.CompletedProcess:
    """`start_program` and its end; `text` is what it finds at its standard input."""
    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8")) for _ in range(3)]
        streams[0].write(text)
        streams[0].seek(0)
        process = start_program(arguments, cwd, *streams, fresh=fresh)
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        for stream in streams:
            stream.seek(0)
        return subprocess.CompletedProcess(process.args, process.returncode, streams[1].read(), streams[2].read())


def start_module(module: str, *arguments: str, fresh: str | None = None) -> subprocess.Popen | ServedProcess:
    return start_program(["-m", module, *arguments], fresh=fresh)


def run_small(module: str, *arguments: str, timeout: float = 300) -> subprocess.CompletedProcess:
    """`run_module`, so."""
    return run_module(SMALL_COMMAND, module, *arguments, timeout=timeout)


def run_small_here(module: str, *arguments: str) -> subprocess.CompletedProcess:
    """`run_here` with the network and without the graphs of `run_small`."""
    from tests.experiments.tiny_network import in_place_of_small_networks
    from tests.support.eager_functions import eagerly

    with in_place_of_small_networks(), eagerly(True):
        return run_here(module, *arguments)


def done_here(module: str, *arguments: str, cwd: str | os.PathLike = ".") -> subprocess.CompletedProcess:
    """`run_here`, which ends without an error."""
    return _succeeded(run_here(module, *arguments, cwd=cwd))


def done_small(module: str, *arguments: str) -> subprocess.CompletedProcess:
    """`run_small`, which ends without an error."""
    return _succeeded(run_small(module, *arguments))


def done_small_here(module: str, *arguments: str) -> subprocess.CompletedProcess:
    """`run_small_here`, which ends without an error."""
    return _succeeded(run_small_here(module, *arguments))


def _succeeded(finished: subprocess.CompletedProcess) -> subprocess.CompletedProcess:
    assert finished.returncode == 0, finished.stderr
    return finished


def run_module(
    module: str, *arguments: str, cwd=ROOT, timeout: float = 300, fresh: str | None = None
) -> subprocess.CompletedProcess:
    return run_program(["-m", module, *arguments], cwd, timeout, fresh=fresh)


def run_study_here(kind: str, *arguments: str) -> None:
    """`experiments.figure` or `experiments.table` in this process; errors are raised."""
    from experiments import figure, table

    with without_flags():
        figure.define_figure_flags()
        flags.FLAGS([kind, *arguments])
        {"figure": figure, "table": table}[kind].main()


def check_clean_failure(finished: subprocess.CompletedProcess, *phrases: str) -> None:
    """Exit code 2, one message with all phrases, no traceback."""
    assert finished.returncode == 2, finished.stderr
    assert "Traceback" not in finished.stderr
    assert finished.stderr.count("error:") == 1, finished.stderr
    missing = [phrase for phrase in phrases if phrase not in finished.stderr]
    assert missing == [], finished.stderr
