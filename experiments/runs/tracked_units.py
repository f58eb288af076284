"""Units and reports as runs of a tracker."""

from __future__ import annotations

import pathlib

from common import records
from common.training.trackers import RunDescription, TrackedRun, TrackerChoice
from experiments.runs.unit import unit_label
from experiments.settings.config import ExperimentConfig


def tracked_unit(
    choice: TrackerChoice, config: ExperimentConfig, fold: int, repeat: int, folder: pathlib.Path, data: str
) -> TrackedRun:
    """Return a unit's tracked run, grouped by method and configuration hash."""
    digest = config.hash(data)
    tags = {
        "commit": records.environment()["commit"] or "none",
        "data": data,
        "config": digest,
        "dataset": config.dataset,
        "protocol": config.protocol or "fair",
        "fold": str(fold),
        "repeat": str(repeat),
    }
    name = f"{config.name} {unit_label(config, fold, repeat)}"
    return choice.tracked(RunDescription(name, f"{config.name}-{digest}", config.as_dict(), tags), folder)


def follow_pictures(choice: TrackerChoice, folder: pathlib.Path, title: str) -> None:
    """Add a report's new pictures to its own tracked run."""
    if not choice.takes_pictures:
        return
    description = RunDescription(title, "reports", tags={"commit": records.environment()["commit"] or "none"})
    tracked = choice.tracked(description, folder)
    pictures = [path for path in sorted(folder.glob("*.png")) if tracked.lacks_picture(path)]
    if pictures:
        tracked.start()
        for path in pictures:
            tracked.picture(path)
        tracked.end()
