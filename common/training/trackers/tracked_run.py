"""A run and the tracker that follows it: resuming, and trouble that must not reach the training."""

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
    """Raised by who watches a run, to end it: the tracked run is stopped then, not failed."""


class TrackedRun:
    """Tells a tracker of a run: every step once, whatever stops the process between, and nothing that it has already.

    A tracker that fails costs one warning; training continues without it. What it has missed it is told by the next
    process that works on the run, from `metrics.jsonl` and the result.

    Args:
        tracker: not started.
        description: of the run.
        folder: of the run, which holds `metrics.jsonl`, and keeps `tracker.json` for a tracker that needs it.
    """

    def __init__(self, tracker: Tracker, description: RunDescription, folder: str | os.PathLike) -> None:
        self.tracker, self.description, self.folder = tracker, description, pathlib.Path(folder)
        self._journal = None if tracker.place is None else RunJournal(folder, tracker.place)
        self._steps: set[int] = set()
        self._is_lost = False

    @property
    def is_incomplete(self) -> bool:
        """Whether an earlier process began to tell the tracker, and none has told it the result."""
        return self._journal is not None and self._journal.is_open

    def start(self) -> None:
        """Begins or continues; tells what `metrics.jsonl` has and the tracker has not."""
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
        """Adds a point to curves, unless the tracker has this step.

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
        """Adds a picture, unless the tracker has it as it is.

        Args:
            path: of a PNG file.
        """
        if self.lacks_picture(path):
            self._tell(self._picture, pathlib.Path(path))

    def lacks_picture(self, path: str | os.PathLike) -> bool:
        """Whether the tracker takes pictures, and has not this one as it is.

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
        """Lets go of the tracker.

        Args:
            status: see `Tracker.finish`.
        """
        self._tell(self.tracker.finish, status)

    def end(self, result: Mapping[str, Any] | None = None) -> None:
        """Tells the result, and that the run has finished.

        Args:
            result: as `RunDirectory.read_result` gives it; None: a run without one, such as a report's.
        """
        if result is not None:
            self._tell(self.tracker.result, result_values(result))
        self.finish(FINISHED)
        if self._journal is not None and not self._is_lost:
            self._tell(self._journal.end)

    def complete(self, result: Mapping[str, Any]) -> None:
        """Tells of a finished run what the tracker has missed; nothing where it was not followed or is complete.

        Args:
            result: of the run.
        """
        if self.is_incomplete:
            self.start()
            self.end(result)

    @contextlib.contextmanager
    def followed(self) -> Iterator[None]:
        """Starts, and tells how the block ends where it does not reach `end`."""
        self.start()
        try:
            yield
        except BaseException as error:
            is_failure = isinstance(error, Exception) and not isinstance(error, EndedFromOutside)
            self.finish(FAILED if is_failure else STOPPED)
            raise

    def _tell(self, tell: Callable[..., Answer], *arguments: Any) -> Answer | None:
        """What the tracker answers; None, and one warning, where it fails, and None ever after."""
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
    """A run that TensorBoard's event files follow, as where no other tracker is asked for.

    Args:
        folder: of the run.
    """
    return TrackedRun(TensorBoardTracker(folder), RunDescription(pathlib.Path(folder).name), folder)


def _records(path: pathlib.Path) -> list[dict]:
    """The whole lines of `metrics.jsonl`, which may be missing."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return [record for line in lines if (record := parsed_object(line)) and "step" in record]


def _digest(path: pathlib.Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
