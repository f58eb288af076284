"""Progress bars: redrawn in a terminal, occasional lines in a log file."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tqdm import tqdm

SECONDS_BETWEEN_LINES = 30.0


class _Log:
    """The output of bars without a terminal: one line every 30 seconds.

    All bars share the interval. A bar that ends sooner writes nothing.
    """

    last_line = -math.inf

    def __init__(self) -> None:
        self._start = time.monotonic()

    def write(self, text: str) -> None:
        """Write the text's line if one is due."""
        line, now = text.strip(), time.monotonic()
        if line and now - max(self._start, _Log.last_line) >= SECONDS_BETWEEN_LINES:
            _Log.last_line = now
            sys.stderr.write(f"{line}\n")

    def flush(self) -> None:
        """Flush standard error."""
        sys.stderr.flush()


def write_notice(text: str) -> None:
    """Write a line to standard error, above any bar being redrawn there.

    Args:
        text: the line, without its end.
    """
    from tqdm import tqdm

    tqdm.write(text, file=sys.stderr)


def progress_bar(iterable: Iterable | None = None, *, leave: bool = True, **shown: Any) -> tqdm:
    """Return a bar on standard error, redrawn only in a terminal.

    Anything but a terminal gets at most a line every 30 seconds.

    Args:
        iterable: to iterate over, or None for a bar that `update` moves.
        leave: whether a terminal keeps the finished bar.
        **shown: as of `tqdm`: `desc`, `total`, `initial`, `unit`, `unit_scale`.
    """
    from tqdm import tqdm  # late: it takes a tenth of a command's start

    if sys.stderr is not None and sys.stderr.isatty():
        return tqdm(iterable, leave=leave, **shown)
    tqdm.monitor_interval = 0  # no thread that redraws
    interval = SECONDS_BETWEEN_LINES
    in_lines: dict[str, Any] = {"file": _Log(), "ncols": 0, "mininterval": interval, "delay": interval, "miniters": 1}
    return tqdm(iterable, leave=False, position=0, **in_lines, **shown)
