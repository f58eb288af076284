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
    """What a tracker is told of a run before its first step.

    Attributes:
        name: for people.
        group: that it shares with the runs to compare it with.
        parameters: the configuration, flat: JSON values by the names of their flags.
        tags: what else tells runs apart: commit, hashes, fold, repeat.
    """

    name: str
    group: str = ""
    parameters: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    tags: Mapping[str, str] = dataclasses.field(default_factory=dict)


class Tracker(abc.ABC):
    """Follows one run. Any method may raise what its library raises; `TrackedRun` sees to that.

    Attributes:
        place: where its runs are, such as the server and the project; None for one that needs no key for a run.
    """

    place: str | None = None

    @abc.abstractmethod
    def start(self, run: RunDescription, key: str) -> Collection[int] | None:
        """Begins to follow a run, or continues with the one that has this key.

        Args:
            run: the description; of a run that is continued nothing has changed.
            key: 32 hexadecimal digits, the same for each process that works on the run.

        Returns:
            The steps whose values it has already; None where the tracker cannot tell.
        """

    @abc.abstractmethod
    def log(self, values: Mapping[str, float], step: int) -> None:
        """Adds a point to curves.

        Args:
            values: by the name of the curve.
            step: update steps done.
        """

    @abc.abstractmethod
    def result(self, values: Mapping[str, float]) -> None:
        """Tells the result; a second time changes nothing.

        Args:
            values: by name, see `result_values`.
        """

    @abc.abstractmethod
    def picture(self, path: str | os.PathLike) -> None:
        """Adds a picture that has been drawn.

        Args:
            path: of a PNG file.
        """

    @abc.abstractmethod
    def finish(self, status: str) -> None:
        """Ends to follow the run, in this process.

        Args:
            status: `finished`, `stopped` (from outside; it can resume) or `failed`.
        """

    def address(self) -> str:
        """Where people find the run, once it is followed; empty where there is nothing to say."""
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
    """The points of a line of `metrics.jsonl`: `loss`, `validation/MAP@R`, ..., `learning_rate` where it changes.

    Args:
        record: of one evaluation.
    """
    names = ("loss", "learning_rate")
    values = {name: float(record[name]) for name in names if record.get(name) is not None}
    return values | {f"validation/{name}": float(value) for name, value in record["validation"].items()}


def result_values(result: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a run's result: `test/MAP@R`, ..., `best/step` and `best/MAP@R` of the selected validation.

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
