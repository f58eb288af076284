"""Runs on MNIST in the plane, by budget; finished ones are skipped."""

from __future__ import annotations

import dataclasses
import hashlib
import pathlib

from common import data
from common.records import RunDirectory
from experiments.process.exit_code import import_tensorflow
from experiments.studies.mnist_report import StudyRun
from experiments.studies.mnist_settings import MnistSettings


def as_long_as(runs: list[StudyRun], settings: MnistSettings) -> MnistSettings:
    """Give fixed proxies as many steps as CCP with the same seed, if trained."""
    steps = [
        run.result["steps"] for run in runs if (run.settings.anchors, run.settings.seed) == ("proxies", settings.seed)
    ]
    if settings.anchors != "fixed proxies" or not steps:
        return settings
    return dataclasses.replace(settings, max_steps=steps[0])


def trained(
    settings: MnistSettings,
    dataset: data.Dataset,
    fingerprint: str,
    repeat: int,
    *,
    runs_dir: str,
    checkpoint_seconds: float,
) -> StudyRun:
    """Train one network unless it is finished.

    Args:
        settings: of the training.
        dataset: MNIST.
        fingerprint: of the data.
        repeat: its number among the runs of its kind.
        runs_dir: the folder for results.
        checkpoint_seconds: shortest time between two checkpoints.
    """
    identity = {**settings.as_dict(), "data": fingerprint}
    digest = hashlib.sha256(repr(sorted(identity.items())).encode()).hexdigest()[:10]
    name = f"{settings.anchors.replace(' ', '_')}-{digest}"
    run = RunDirectory(pathlib.Path(runs_dir) / "mnist_study" / name, identity)
    result = run.read_result()
    if result is None:
        import_tensorflow()
        from experiments.studies.mnist_training import MnistTraining

        with run.locked():
            result = MnistTraining(settings, dataset, run).train(checkpoint_seconds)
    return StudyRun(settings, repeat, run.path, result)
