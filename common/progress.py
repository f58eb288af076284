"""Progress bars: redrawn in a terminal, occasional lines in a log file."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tqdm import tqdm

SECONDS_BETWEEN_LINES = 30.0


class LoggedBar:
    """Progress in a log file: at most one line every 30 seconds.

    All bars share the interval. A bar that ends sooner writes nothing.

    Args:
        iterable: to iterate over, or None for a bar that `update` moves.
        desc: the label.
        total: number of items, or None if unknown.
        initial: items done before.
        unit, unit_scale: of the items; whether to write large numbers with k, M, G.
        clock: returns seconds.
    """

    _last_line = -float("inf")  # of all bars: nested bars do not double the lines

    def __init__(
        self,
        iterable: Iterable | None = None,
        *,
        desc: str = "",
        total: float | None = None,
        initial: int = 0,
        unit: str = "it",
        unit_scale: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._iterable, self._count, self._clock, self._start = iterable, initial, clock, clock()
        self._values: Mapping[str, object] = {}
        self._format = {"total": total, "initial": initial, "prefix": desc, "unit": unit, "unit_scale": unit_scale}

    def __enter__(self) -> LoggedBar:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def __iter__(self) -> Iterator:
        for item in self._iterable or ():
            yield item
            self.update()

    def update(self, n: int = 1) -> None:
        """Count `n` more items, and write a line if one is due."""
        self._count += n
        now = self._clock()
        if now - max(self._start, LoggedBar._last_line) < SECONDS_BETWEEN_LINES:
            return
        LoggedBar._last_line = now
        values = ", ".join(f"{name}={value}" for name, value in self._values.items())
        from tqdm import tqdm

        text = tqdm.format_meter(
            self._count, elapsed=now - self._start, ncols=0, postfix=values or None, **self._format
        )
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()

    def set_postfix(self, ordered_dict: Mapping[str, object] | None = None, refresh: bool | None = True) -> None:
        """Store values for the next line."""
        del refresh
        self._values = dict(ordered_dict or {})

    def close(self) -> None:
        """Do nothing: all lines are whole."""


def write_notice(text: str) -> None:
    """Write a line to standard error, above any bar being redrawn there.

    Args:
        text: the line, without its end.
    """
    from tqdm import tqdm

    tqdm.write(text, file=sys.stderr)


def progress_bar(
    iterable: Iterable | None = None,
    *,
    desc: str,
    total: float | None = None,
    initial: int = 0,
    unit: str = "it",
    unit_scale: bool = False,
    leave: bool = True,
) -> tqdm | LoggedBar:
    """Return a bar on standard error, redrawn only in a terminal.

    Anything but a terminal gets at most a line every 30 seconds.

    Args:
        iterable: to iterate over, or None for a bar that `update` moves.
        desc: the label.
        total: number of items; None for the length of `iterable`, if it has one.
        initial: items done before.
        unit, unit_scale: of the items; whether to write large numbers with k, M, G.
        leave: whether a terminal keeps the finished bar.
    """
    if total is None and isinstance(iterable, Sized):
        total = len(iterable)
    shown: dict[str, Any] = {"desc": desc, "total": total, "initial": initial, "unit": unit, "unit_scale": unit_scale}
    if sys.stderr is not None and sys.stderr.isatty():
        from tqdm import tqdm  # late: it takes a tenth of a command's start

        return tqdm(iterable, leave=leave, **shown)
    return LoggedBar(iterable, **shown)
