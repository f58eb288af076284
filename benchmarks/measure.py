"""Shared by all benchmarks: paired timing, peak memory, a table and one line of JSON."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import resource
import statistics
import time
from collections.abc import Callable, Sequence


def paired_seconds(functions: dict[str, Callable], repeats: int) -> dict[str, list[float]]:
    """Wall-clock seconds of each function in the order A B A B ..., so that a busy machine slows all of them alike."""
    return paired_clocks(functions, repeats)[0]


def paired_clocks(functions: dict[str, Callable], repeats: int) -> tuple[dict, dict]:
    """Like `paired_seconds`, with the processor seconds of all threads: steadier on a busy machine.

    Garbage is collected between the rounds and not within: a collection before every call would empty the caches of the
    short ones. Each round begins with another function, since the first one finds the caches emptied.
    """
    clocks = (time.perf_counter, time.process_time)
    seconds: tuple[dict, dict] = tuple({name: [] for name in functions} for _ in clocks)
    with _no_garbage_collection():
        for turn in range(repeats):
            gc.collect()
            begin = turn % len(functions)
            for name, function in [*functions.items()][begin:] + [*functions.items()][:begin]:
                start = [clock() for clock in clocks]
                function()
                for clock, begun, found in zip(clocks, start, seconds):
                    found[name].append(clock() - begun)
    return seconds


@contextlib.contextmanager
def _no_garbage_collection():
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def paired_ratio(numerator: Sequence[float], denominator: Sequence[float]) -> float:
    """The median over the rounds of numerator / denominator."""
    return statistics.median(above / below for above, below in zip(numerator, denominator))


def spread(seconds: Sequence[float]) -> str:
    """'median (min-max)' in seconds."""
    return f"{statistics.median(seconds):.3g} ({min(seconds):.3g}-{max(seconds):.3g})"


def peak_growth_gb(function: Callable) -> tuple[object, float]:
    """The function's result and how many GB (10^9 bytes) its peak resident memory lay above that at its start.

    Memory that the C library keeps from earlier work is given back first (glibc); elsewhere measure before other work.
    """
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # Linux: the peak starts again from here
    before = _status_bytes("VmRSS")
    result = function()
    return result, max(0, _status_bytes("VmHWM") - before) / 1e9


def print_table(header: Sequence[str], rows: Sequence[Sequence]) -> None:
    """Prints rows in columns of equal width."""
    cells = [[str(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    for row in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


def print_figures(figures: dict) -> None:
    """Prints one JSON object: the last line of every benchmark. Floats keep four digits."""
    rounded = {name: float(f"{value:.4g}") if isinstance(value, float) else value for name, value in figures.items()}
    print(json.dumps(rounded), flush=True)


def _status_bytes(field: str) -> int:
    """A field of /proc/self/status in bytes; without it the peak since the process started."""
    try:
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith(field)) * 1024
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
