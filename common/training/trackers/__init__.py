"""Trackers: external programs that follow runs, behind one interface."""

from common.training.trackers.run_journal import JOURNAL
from common.training.trackers.tracked_run import EndedFromOutside, TrackedRun
from common.training.trackers.tracker import (
    FAILED,
    FINISHED,
    STOPPED,
    NoTracker,
    RunDescription,
    Tracker,
    result_values,
)
from common.training.trackers.tracker_choice import TENSORBOARD, TRACKERS, TrackerChoice

__all__ = [
    "FAILED",
    "FINISHED",
    "JOURNAL",
    "STOPPED",
    "TENSORBOARD",
    "TRACKERS",
    "EndedFromOutside",
    "NoTracker",
    "RunDescription",
    "TrackedRun",
    "Tracker",
    "TrackerChoice",
    "result_values",
]
