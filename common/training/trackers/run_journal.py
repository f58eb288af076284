"""The file by which a resumed process continues the same tracked run."""

from __future__ import annotations

import os
import pathlib
import uuid
from typing import Any

from common.files import read_json, write_json

JOURNAL = "tracker.json"


class RunJournal:
    """A tracker's journal in the run's folder: key, last step, pictures, end.

    The key is written before the run is created at the tracker. A process killed in between leaves a key without a run,
    never a run without a key.

    Args:
        folder: of the run.
        place: of the tracker's runs; several places may follow a run, one after another.
    """

    def __init__(self, folder: str | os.PathLike, place: str) -> None:
        self.path, self.place = pathlib.Path(folder) / JOURNAL, place
        self._all: dict[str, Any] = read_json(self.path) or {}
        self._entry: dict[str, Any] = self._all.get(place, {})

    @property
    def is_open(self) -> bool:
        """True if the tracker follows the run here and lacks its end."""
        return bool(self._entry) and not self._entry.get("finished")

    @property
    def last_step(self) -> int:
        """The last step sent to the tracker; 0 before the first."""
        return int(self._entry.get("step", 0))

    def key(self) -> str:
        """Return the run's key, which the first call makes and stores."""
        if "key" not in self._entry:
            self._write(key=uuid.uuid4().hex)
        return str(self._entry["key"])

    def told(self, step: int) -> None:
        """Store the last step."""
        self._write(step=step)

    def end(self) -> None:
        """Store that the tracker has the result."""
        self._write(finished=True)

    def has_picture(self, name: str, digest: str) -> bool:
        """Check whether the tracker has the current version of a picture."""
        return self._entry.get("pictures", {}).get(name) == digest

    def add_picture(self, name: str, digest: str) -> None:
        """Store that the tracker has a picture."""
        self._write(pictures={**self._entry.get("pictures", {}), name: digest})

    def _write(self, **values: Any) -> None:
        self._entry = {**self._entry, **values}
        self._all[self.place] = self._entry
        write_json(self.path, self._all)
