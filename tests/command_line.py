"""Runs a command of this project as a user does, in a process of its own."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile

from tests.served_process import ROOT, ServedProcess, command_server, environment

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


def start_small(module: str, *arguments: str) -> subprocess.Popen | ServedProcess:
    """`start_module` with a network of one convolution for the small ones (resnet10, resnet20), and no graphs."""
    return start_module(SMALL_COMMAND, module, *arguments)


def run_small(module: str, *arguments: str, timeout: float = 300) -> subprocess.CompletedProcess:
    """`run_module`, so."""
    return run_module(SMALL_COMMAND, module, *arguments, timeout=timeout)


def run_module(
    module: str, *arguments: str, cwd=ROOT, timeout: float = 300, fresh: str | None = None
) -> subprocess.CompletedProcess:
    return run_program(["-m", module, *arguments], cwd, timeout, fresh=fresh)


def run_study_here(kind: str, *arguments: str) -> None:
    """`experiments.figure` or `experiments.table` in this process, without the cost of a new one; errors are raised."""
    from absl import flags
    from absl.testing import flagsaver

    from experiments import figure, table
    from experiments.plans.study_command import define_study_flags

    if "id" not in flags.FLAGS:
        define_study_flags({**figure.EXTERNAL_FIGURES, **figure.FIGURES, **table.TABLES})
    with flagsaver.flagsaver():
        flags.FLAGS([kind, *arguments])
        {"figure": figure, "table": table}[kind].main()


def check_clean_failure(finished: subprocess.CompletedProcess, *phrases: str) -> None:
    """Exit code 2, one message with all phrases, no traceback."""
    assert finished.returncode == 2, finished.stderr
    assert "Traceback" not in finished.stderr
    assert finished.stderr.count("error:") == 1, finished.stderr
    missing = [phrase for phrase in phrases if phrase not in finished.stderr]
    assert missing == [], finished.stderr
