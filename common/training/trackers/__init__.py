"""Trackers: external programs that follow runs, behind one interface."""

from common.training.trackers.tracked_run import (
    FAILED,
    FINISHED,
    JOURNAL,
    STOPPED,
    EndedFromOutside,
    RunDescription,
    TrackedRun,
    result_values,
)
from common.training.trackers.tracker_choice import TENSORBOARD, TRACKERS, TrackerChoice, arguments_of

__all__ = [
    "FAILED",
    "FINISHED",
    "JOURNAL",
    "STOPPED",
    "TENSORBOARD",
    "TRACKERS",
    "EndedFromOutside",
    "RunDescription",
    "TrackedRun",
    "TrackerChoice",
    "arguments_of",
    "result_values",
]
