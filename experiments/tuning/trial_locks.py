"""Locks of trials: one file each, held until its process ends."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator
from typing import IO

from common.files import lock_file


class TrialLocks:
    """The locks of one search, among processes that share its folder.

    Args:
        folder: of the search; created if missing.
    """

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Wait until no other process chooses a trial, and block them meanwhile."""
        with open(self.folder / "choosing.lock", "w") as file:
            lock_file(file)
            yield

    def take(self, number: int) -> IO | None:
        """Return a trial's lock, held until closed; None if held elsewhere."""
        file = open(self.folder / f"trial-{number}.lock", "w")  # noqa: SIM115  the caller closes it
        try:
            lock_file(file, wait=False)
        except BlockingIOError:
            file.close()
            return None
        return file
