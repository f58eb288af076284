"""The file that lets a resumed process continue the same tracked run."""

from __future__ import annotations

import os
import pathlib
import uuid
from typing import Any

from common.files import read_json, write_json

JOURNAL = "tracker.json"


class RunJournal:
    """What a run's folder remembers of one tracker: the run's key there, the last step, the pictures, and the end.

    The key is written before the tracker hears of the run: a process that is killed in between leaves a key without a
    run, never a run without a key.

    Args:
        folder: of the run.
        place: of the tracker's runs; a run may be followed in several, one after another.
    """

    def __init__(self, folder: str | os.PathLike, place: str) -> None:
        self.path, self.place = pathlib.Path(folder) / JOURNAL, place
        self._all: dict[str, Any] = read_json(self.path) or {}
        self._entry: dict[str, Any] = self._all.get(place, {})

    @property
    def is_open(self) -> bool:
        """Whether the tracker has begun to follow the run here and has not heard of its end."""
        return bool(self._entry) and not self._entry.get("finished")

    @property
    def last_step(self) -> int:
        """The last step that the tracker was told of; 0 before the first."""
        return int(self._entry.get("step", 0))

    def key(self) -> str:
        """The run's key, which is made and kept by the first call."""
        if "key" not in self._entry:
            self._write(key=uuid.uuid4().hex)
        return str(self._entry["key"])

    def told(self, step: int) -> None:
        """Remembers the last step."""
        self._write(step=step)

    def end(self) -> None:
        """Remembers that the tracker knows the result."""
        self._write(finished=True)

    def has_picture(self, name: str, digest: str) -> bool:
        """Whether the tracker has a picture as it is now."""
        return self._entry.get("pictures", {}).get(name) == digest

    def add_picture(self, name: str, digest: str) -> None:
        """Remembers a picture."""
        self._write(pictures={**self._entry.get("pictures", {}), name: digest})

    def _write(self, **values: Any) -> None:
        self._entry = {**self._entry, **values}
        self._all[self.place] = self._entry
        write_json(self.path, self._all)
