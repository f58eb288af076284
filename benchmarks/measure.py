"""Shared parts of all benchmarks: paired timing, peak memory, table, JSON line."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import resource
import statistics
from collections.abc import Callable, Sequence

from experiments.studies.transport_time import (
    paired_clocks as paired_clocks,
    paired_ratio as paired_ratio,
    paired_seconds as paired_seconds,
)


def spread(seconds: Sequence[float]) -> str:
    """Return 'median (min-max)' in seconds."""
    return f"{statistics.median(seconds):.3g} ({min(seconds):.3g}-{max(seconds):.3g})"


def peak_growth_gb(function: Callable) -> tuple[object, float]:
    """Return a function's result and its rise of the peak memory.

    The rise of resident memory is in GB (10^9 bytes). The C library first returns memory kept from earlier work
    (glibc); elsewhere measure before other work.
    """
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # Linux: the peak starts again from here
    before = status_bytes("VmRSS")
    result = function()
    return result, max(0, status_bytes("VmHWM") - before) / 1e9


def print_table(header: Sequence[str], rows: Sequence[Sequence]) -> None:
    """Print rows in columns of equal width."""
    cells = [[str(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    for row in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


def print_figures(figures: dict) -> None:
    """Print one JSON object: the last line of every benchmark.

    Floats keep four digits.
    """
    rounded = {name: float(f"{value:.4g}") if isinstance(value, float) else value for name, value in figures.items()}
    print(json.dumps(rounded), flush=True)


def status_bytes(field: str) -> int:
    """Return a field of /proc/self/status in bytes, else the peak so far."""
    try:
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith(field)) * 1024
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
