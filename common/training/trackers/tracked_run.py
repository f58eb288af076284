"""A run and the external program that follows it: resuming, and errors."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import pathlib
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, TypeVar

from common.errors import first_line
from common.files import read_json, read_json_lines, write_json
from common.progress import write_notice

FINISHED, STOPPED, FAILED = "finished", "stopped", "failed"  # how a run ends: a stopped one can resume
JOURNAL = "tracker.json"  # in the run's folder: key, last step, pictures and end, by the place of the tracker's runs

Answer = TypeVar("Answer")


class EndedFromOutside(Exception):
    """Raised by a watcher to end a run, which counts as stopped, not failed."""


@dataclasses.dataclass(frozen=True)
class RunDescription:
    """A run's description for the tracker, before its first step.

    Attributes:
        name: for people.
        group: shared with the runs to compare it with.
        parameters: the configuration, flat: JSON values by the names of their flags.
        tags: other marks of the run: commit, hashes, fold, repeat.
    """

    name: str
    group: str = ""
    parameters: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    tags: Mapping[str, str] = dataclasses.field(default_factory=dict)


class TrackedRun:
    """Sends a run to a tracker: every step exactly once, despite interruptions.

    This class follows nothing. A subclass is a tracker: it overrides the methods that begin with `send` or `_send`,
    whose exceptions cost one warning; training continues without the tracker. The next process that works on the run
    sends the missing data, from `metrics.jsonl` and the result.

    The key is stored before the run is created at the tracker. A process killed in between leaves a key without a run,
    never a run without a key.

    Args:
        description: of the run.
        folder: of the run, which holds `metrics.jsonl`, and `tracker.json` for a tracker that needs it.
        place: of the tracker's runs, such as the server and the project; several places may follow a run, one after
            another. None if runs need no key.
    """

    def __init__(self, description: RunDescription, folder: str | os.PathLike, place: str | None = None) -> None:
        self.description, self.folder, self.place = description, pathlib.Path(folder), place
        self._journals: dict[str, Any] = {} if place is None else read_json(self.folder / JOURNAL) or {}
        self._journal: dict[str, Any] = self._journals.get(str(place), {})
        self._steps: Collection[int] = ()  # the tracker has had them before
        self._last_step, self._is_lost = 0, False

    @property
    def is_incomplete(self) -> bool:
        """True if an earlier process began tracking, and none sent the result."""
        return bool(self._journal) and not self._journal.get("finished")

    def start(self) -> None:
        """Start or resume tracking; send the lines of `metrics.jsonl` that it lacks."""
        if self.place is not None and "key" not in self._journal:
            self._note(key=uuid.uuid4().hex)
        known = self._tell(self._send_start, self._journal.get("key", ""))
        self._steps = range(self._journal.get("step", 0) + 1) if known is None else known
        if self.place is None or self._is_lost:
            return
        if address := self._address():
            write_notice(f"{self.description.name} is followed at {address}")
        for record in read_json_lines(self.folder / "metrics.jsonl"):
            if "step" in record:
                self.log(curve_values(record), record["step"])

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Add a point to curves, unless the tracker has this step.

        Args:
            values: by the name of the curve.
            step: update steps done.
        """
        if step not in self._steps and step > self._last_step:
            self._last_step = step
            self._tell(self._send, values, step)
            self._note(step=step)

    def picture(self, path: str | os.PathLike) -> None:
        """Add a picture, unless the tracker has its current version.

        Args:
            path: of a PNG file.
        """
        path = pathlib.Path(path)
        if self.lacks_picture(path):
            self._tell(self._send_picture, path)
            self._note(pictures={**self._journal.get("pictures", {}), path.name: _digest(path)})

    def lacks_picture(self, path: str | os.PathLike) -> bool:
        """Check whether the tracker takes pictures and lacks this one's current version.

        Args:
            path: of a PNG file.
        """
        path = pathlib.Path(path)
        return self.place is not None and self._journal.get("pictures", {}).get(path.name) != _digest(path)

    def finish(self, status: str) -> None:
        """Stop following the run in this process.

        Args:
            status: `finished`, `stopped` (from outside; it can resume) or `failed`.
        """
        self._tell(self._send_end, status)

    def end(self, result: Mapping[str, Any] | None = None) -> None:
        """Send the result, and mark the run as finished.

        Args:
            result: as `RunDirectory.read_result` gives it; None: a run without one, such as a report's.
        """
        if result is not None:
            self._tell(self._send_result, result_values(result))
        self.finish(FINISHED)
        self._note(finished=True)

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

    def _send_start(self, key: str) -> Collection[int] | None:
        """Start to follow the run, or resume the one with this key.

        Args:
            key: 32 hexadecimal digits, the same for each process that works on the run; "" without a place.

        Returns:
            The steps whose values the tracker already has; None if it cannot say.
        """

    def _send(self, values: Mapping[str, float], step: int) -> None:
        """Add a point to curves."""

    def _send_result(self, values: Mapping[str, float]) -> None:
        """Send the result; a second call changes nothing."""

    def _send_picture(self, path: pathlib.Path) -> None:
        """Add a drawn picture."""

    def _send_end(self, status: str) -> None:
        """Stop following; see `finish`."""

    def _address(self) -> str:
        """Return the address of the followed run, or an empty string."""
        return ""

    def _tell(self, send: Callable[..., Answer], *arguments: Any) -> Answer | None:
        """Call the tracker and return its answer.

        If it fails, warn once, and return None from then on.
        """
        if self._is_lost:
            return None
        try:
            return send(*arguments)
        except Exception as error:  # noqa: BLE001 (its library may raise anything, and the run continues)
            self._is_lost = True
            name = type(self).__name__.removesuffix("Tracker")
            write_notice(
                f"warning: {name} does not follow {self.description.name} any more ({type(error).__name__}: "
                f"{first_line(error)}). The run continues, and its folder has all figures; the same command tells "
                f"{name} what it has missed."
            )
            return None

    def _note(self, **values: Any) -> None:
        """Add to the journal, unless the tracker has no place or is lost."""
        if self.place is not None:
            entry = {**self._journal, **values}
            self._tell(write_json, self.folder / JOURNAL, {**self._journals, self.place: entry})
            self._journal = self._journal if self._is_lost else entry


def curve_values(record: Mapping[str, Any]) -> dict[str, float]:
    """Return the points of a `metrics.jsonl` line.

    They are `loss`, `validation/MAP@R`, ..., and `learning_rate` where it changes.

    Args:
        record: of one evaluation.
    """
    names = ("loss", "learning_rate")
    values = {name: float(record[name]) for name in names if record.get(name) is not None}
    return values | {f"validation/{name}": float(value) for name, value in record["validation"].items()}


def result_values(result: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of a run's result.

    They are `test/MAP@R`, ..., `best/step` and `best/MAP@R` of the selected validation.

    Args:
        result: as `RunDirectory.read_result` gives it.
    """
    parts = {"test": result.get("test", {}), "best": result.get("validation", {}).get("best", {})}
    return {
        f"{part}/{name}": float(value)
        for part, values in parts.items()
        for name, value in values.items()
        if isinstance(value, (int, float))
    }


def _digest(path: pathlib.Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
