"""Runs a command of this project as a user does, in a process of its own."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
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


def command(module: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", module, *arguments]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}


def run_module(module: str, *arguments: str, cwd=ROOT, timeout: float = 300) -> subprocess.CompletedProcess:
    return subprocess.run(
        command(module, *arguments), cwd=cwd, env=environment(), capture_output=True, text=True, timeout=timeout
    )


def run_study_here(kind: str, *arguments: str) -> None:
    """`experiments.figure` or `experiments.table` in this process, without the cost of a new one; errors are raised."""
    from absl import flags
    from absl.testing import flagsaver

    from experiments import figure, table
    from experiments.studies.study_command import define_study_flags

    if "id" not in flags.FLAGS:
        define_study_flags({**figure.DELEGATED, **figure.FIGURES, **table.TABLES})
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
