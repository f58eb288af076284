"""A run and its tracker: resuming, and errors kept from the training."""

from __future__ import annotations

import contextlib
import hashlib
import os
import pathlib
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, TypeVar

from common.files import parsed_object
from common.progress import write_notice
from common.training.trackers.run_journal import RunJournal
from common.training.trackers.tensorboard_tracker import TensorBoardTracker
from common.training.trackers.tracker import (
    FAILED,
    FINISHED,
    STOPPED,
    RunDescription,
    Tracker,
    curve_values,
    result_values,
)

Answer = TypeVar("Answer")


class EndedFromOutside(Exception):
    """Raised by a watcher to end a run, which counts as stopped, not failed."""


class TrackedRun:
    """Sends a run to a tracker: every step exactly once, despite interruptions.

    A failing tracker costs one warning; training continues without it. The next process that works on the run sends the
    missing data, from `metrics.jsonl` and the result.

    Args:
        tracker: not started.
        description: of the run.
        folder: of the run, which holds `metrics.jsonl`, and `tracker.json` for a tracker that needs it.
    """

    def __init__(self, tracker: Tracker, description: RunDescription, folder: str | os.PathLike) -> None:
        self.tracker, self.description, self.folder = tracker, description, pathlib.Path(folder)
        self._journal = None if tracker.place is None else RunJournal(folder, tracker.place)
        self._steps: set[int] = set()
        self._is_lost = False

    @property
    def is_incomplete(self) -> bool:
        """True if an earlier process began tracking, and none sent the result."""
        return self._journal is not None and self._journal.is_open

    def start(self) -> None:
        """Start or resume tracking; send the lines of `metrics.jsonl` that it lacks."""
        known = self._tell(self._started)
        self._steps = set(known or ())
        if self._journal is not None and not self._is_lost:
            if address := self.tracker.address():
                write_notice(f"{self.description.name} is followed at {address}")
            for record in _records(self.folder / "metrics.jsonl"):
                if known is None and record["step"] <= self._journal.last_step:
                    self._steps.add(record["step"])
                self.log(curve_values(record), record["step"])

    def _started(self) -> Collection[int] | None:
        return self.tracker.start(self.description, self._journal.key() if self._journal else "")

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Add a point to curves, unless the tracker has this step.

        Args:
            values: by the name of the curve.
            step: update steps done.
        """
        if step in self._steps or self._is_lost:
            return
        self._steps.add(step)
        self._tell(self._log, values, step)

    def _log(self, values: Mapping[str, float], step: int) -> None:
        self.tracker.log(values, step)
        if self._journal is not None:
            self._journal.told(step)

    def picture(self, path: str | os.PathLike) -> None:
        """Add a picture, unless the tracker has its current version.

        Args:
            path: of a PNG file.
        """
        if self.lacks_picture(path):
            self._tell(self._picture, pathlib.Path(path))

    def lacks_picture(self, path: str | os.PathLike) -> bool:
        """Check whether the tracker takes pictures and lacks this one's current version.

        Args:
            path: of a PNG file.
        """
        path = pathlib.Path(path)
        return self._journal is not None and not self._journal.has_picture(path.name, _digest(path))

    def _picture(self, path: pathlib.Path) -> None:
        self.tracker.picture(path)
        if self._journal is not None:
            self._journal.add_picture(path.name, _digest(path))

    def finish(self, status: str) -> None:
        """Finish tracking.

        Args:
            status: see `Tracker.finish`.
        """
        self._tell(self.tracker.finish, status)

    def end(self, result: Mapping[str, Any] | None = None) -> None:
        """Send the result, and mark the run as finished.

        Args:
            result: as `RunDirectory.read_result` gives it; None: a run without one, such as a report's.
        """
        if result is not None:
            self._tell(self.tracker.result, result_values(result))
        self.finish(FINISHED)
        if self._journal is not None and not self._is_lost:
            self._tell(self._journal.end)

    def complete(self, result: Mapping[str, Any]) -> None:
        """Send a finished run's missing data to the tracker.

        No-op if untracked or complete.

        Args:
            result: of the run.
        """
        if self.is_incomplete:
            self.start()
            self.end(result)

    @contextlib.contextmanager
    def followed(self) -> Iterator[None]:
        """Start tracking; report "failed" or "stopped" if the block raises."""
        self.start()
        try:
            yield
        except BaseException as error:
            is_failure = isinstance(error, Exception) and not isinstance(error, EndedFromOutside)
            self.finish(FAILED if is_failure else STOPPED)
            raise

    def _tell(self, tell: Callable[..., Answer], *arguments: Any) -> Answer | None:
        """Call the tracker and return its answer.

        If it fails, warn once, and return None from then on.
        """
        if self._is_lost:
            return None
        try:
            return tell(*arguments)
        except Exception as error:  # noqa: BLE001 (its library may raise anything, and the run continues)
            self._is_lost = True
            said = str(error).strip().splitlines() or [""]
            name = type(self.tracker).__name__.removesuffix("Tracker")
            write_notice(
                f"warning: {name} does not follow {self.description.name} any more ({type(error).__name__}: "
                f"{said[0][:300]}). The run continues, and its folder has all figures; the same command tells {name} "
                "what it has missed."
            )
            return None


def tensorboard_run(folder: str | os.PathLike) -> TrackedRun:
    """Return a run followed by TensorBoard's event files, the default tracker.

    Args:
        folder: of the run.
    """
    return TrackedRun(TensorBoardTracker(folder), RunDescription(pathlib.Path(folder).name), folder)


def _records(path: pathlib.Path) -> list[dict]:
    """Return the whole lines of `metrics.jsonl`, which may be missing."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return [record for line in lines if (record := parsed_object(line)) and "step" in record]


def _digest(path: pathlib.Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
