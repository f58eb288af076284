"""One unit to launch: its command, its state and its log."""

from __future__ import annotations

import abc
import dataclasses
import pathlib
import shlex
from collections.abc import Iterable
from typing import NamedTuple

from common.errors import InvalidInput


@dataclasses.dataclass(frozen=True)
class UnitTask(abc.ABC):
    """A unit, such as a run, as a command for its own process."""

    label: str  # its name for the user, unique in a launch
    command: str  # `python -m MODULE --FLAG=VALUE ...`, as a shell reads it

    @property
    def arguments(self) -> tuple[str, ...]:
        """The command's arguments for the interpreter: `-m`, the module and its flags."""
        return tuple(shlex.split(self.command)[1:])

    @property
    @abc.abstractmethod
    def log_name(self) -> str:
        """The log's name, unique among the units of a folder, in all launches."""

    @abc.abstractmethod
    def is_finished(self) -> bool:
        """Return whether its result is on disk."""

    @abc.abstractmethod
    def is_held(self) -> bool:
        """Return whether any process, a worker or another, works on it."""


class Failure(NamedTuple):
    """A unit that has ended without a result."""

    task: UnitTask
    reason: str
    log: pathlib.Path


def last_words(log: pathlib.Path) -> str:
    """Return a log's last `error:` line, else its last line."""
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    lines = [part.strip() for line in text.splitlines() for part in line.split("\r") if part.strip()]
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return (errors or lines or ["its log is empty"])[-1]


def check_no_failures(failures: Iterable[Failure]) -> None:
    """Raise `InvalidInput` with each failed unit's reason, log and command."""
    failed = list(failures)
    if failed:
        lines = [
            f"{each.task.label}: {each.reason}\n    log: {each.log}\n    command: {each.task.command}"
            for each in failed
        ]
        count = "1 unit has" if len(failed) == 1 else f"{len(failed)} units have"
        raise InvalidInput(
            "\n  ".join([f"{count} failed:", *lines])
            + "\nThe other units have finished. Mend what the message says and run the same command again: it starts "
            "what is missing."
        )
