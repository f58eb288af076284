"""The interface of trackers, and the one that follows nothing."""

from __future__ import annotations

import abc
import dataclasses
import os
from collections.abc import Collection, Mapping
from typing import Any

FINISHED, STOPPED, FAILED = "finished", "stopped", "failed"  # how a run ends: a stopped one can resume


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


class Tracker(abc.ABC):
    """Follows one run.

    Any method may raise its library's exceptions, which `TrackedRun` catches.

    Attributes:
        place: the place of its runs, such as the server and the project; None if runs need no key.
    """

    place: str | None = None

    @abc.abstractmethod
    def start(self, run: RunDescription, key: str) -> Collection[int] | None:
        """Start to follow a run, or resume the one with this key.

        Args:
            run: the description; unchanged for a resumed run.
            key: 32 hexadecimal digits, the same for each process that works on the run.

        Returns:
            The steps whose values it already has; None if the tracker cannot say.
        """

    @abc.abstractmethod
    def log(self, values: Mapping[str, float], step: int) -> None:
        """Add a point to curves.

        Args:
            values: by the name of the curve.
            step: update steps done.
        """

    @abc.abstractmethod
    def result(self, values: Mapping[str, float]) -> None:
        """Send the result; a second call changes nothing.

        Args:
            values: by name, see `result_values`.
        """

    @abc.abstractmethod
    def picture(self, path: str | os.PathLike) -> None:
        """Add a drawn picture.

        Args:
            path: of a PNG file.
        """

    @abc.abstractmethod
    def finish(self, status: str) -> None:
        """Stop following the run in this process.

        Args:
            status: `finished`, `stopped` (from outside; it can resume) or `failed`.
        """

    def address(self) -> str:
        """Return the address of the followed run, or an empty string."""
        return ""


class NoTracker(Tracker):
    """Follows nothing."""

    def start(self, run: RunDescription, key: str) -> Collection[int] | None:
        return None

    def log(self, values: Mapping[str, float], step: int) -> None:
        pass

    def result(self, values: Mapping[str, float]) -> None:
        pass

    def picture(self, path: str | os.PathLike) -> None:
        pass

    def finish(self, status: str) -> None:
        pass


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
