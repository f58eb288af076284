"""Runs of Weights & Biases, online or in files that `wandb sync` uploads later."""

from __future__ import annotations

import netrc
import os
import pathlib
import urllib.parse
from collections.abc import Collection, Mapping
from types import ModuleType
from typing import Any

from common.errors import InvalidInput, invalid
from common.training.trackers.tracked_run import FINISHED, RunDescription, TrackedRun

MODES = ("online", "offline")
_MAX_TAG = 64  # characters, by the service


def wandb() -> ModuleType:
    """Import the library.

    Raises:
        InvalidInput: it is not installed.
    """
    try:
        import wandb as library
    except ImportError as error:
        raise InvalidInput(
            "--tracker=wandb needs Weights & Biases' client, which is not installed: "
            "pip install 'deep-metric-learning[wandb]' (in a clone: '.[wandb]')."
        ) from error
    return library


def check_login() -> None:
    """Raise `InvalidInput` if wandb is missing, disabled, or online without a login."""
    wandb()
    mode = os.environ.get("WANDB_MODE", "online")
    if mode not in MODES:
        fix = "With --tracker=none nothing is followed."
        raise invalid("WANDB_MODE", received=mode, expected=f"{' or '.join(MODES)} for --tracker=wandb", fix=fix)
    if mode == "online" and not _has_login():
        raise InvalidInput(
            "--tracker=wandb found no login: received neither WANDB_API_KEY nor an entry of `wandb login`, expected "
            "one of them. Log in, or set WANDB_MODE=offline, which writes files that `wandb sync` uploads later."
        )


def _has_login() -> bool:
    if os.environ.get("WANDB_API_KEY") or os.environ.get("WANDB_IDENTITY_TOKEN_FILE"):
        return True
    host = urllib.parse.urlsplit(os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")).hostname or ""
    try:
        return netrc.netrc(os.environ.get("NETRC", pathlib.Path.home() / ".netrc")).authenticators(host) is not None
    except (OSError, netrc.NetrcParseError):
        return False


class WandbTracker(TrackedRun):
    """Follows a run as a run of W&B, with the run's key as id.

    W&B reads its own variables, such as `WANDB_DIR`. Offline, each process that works on a run writes a folder of its
    own, with the same id.

    Args:
        description: of the run.
        folder: of the run.
        project: of W&B, made if missing.
    """

    def __init__(self, description: RunDescription, folder: str | os.PathLike, project: str) -> None:
        super().__init__(description, folder, f"wandb {project}")
        self.project = project
        self._library = wandb()
        self._run: Any = None

    def _send_start(self, key: str) -> Collection[int] | None:
        self._run = self._library.init(
            project=self.project,
            id=key,
            name=self.description.name,
            group=self.description.group or None,
            config=dict(self.description.parameters),
            tags=[f"{name}:{value}"[:_MAX_TAG] for name, value in self.description.tags.items()],
            resume="allow",
            settings=self._library.Settings(silent=True, console="off", disable_git=True, x_disable_stats=True),
        )
        return range(self._run.starting_step) if self._run.starting_step else None

    def _send(self, values: Mapping[str, float], step: int) -> None:
        self._run.log(dict(values), step=step, commit=True)

    def _send_result(self, values: Mapping[str, float]) -> None:
        self._run.summary.update(dict(values))

    def _send_picture(self, path: pathlib.Path) -> None:
        self._run.log({f"pictures/{path.stem}": self._library.Image(os.fspath(path))}, commit=True)

    def _send_end(self, status: str) -> None:
        self._run.finish(exit_code=0 if status == FINISHED else 1)

    def _address(self) -> str:
        return str(pathlib.Path(self._run.dir).parent) if self._run.offline else self._run.url
