"""Times of several functions in turn: a busy machine slows all alike."""

from __future__ import annotations

import contextlib
import gc
import statistics
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeVar

Name = TypeVar("Name", bound=Hashable)


def paired_seconds(functions: Mapping[Name, Callable], repeats: int) -> dict[Name, list[float]]:
    """Return wall-clock seconds of each function in the order A B A B ..."""
    return paired_clocks(functions, repeats)[0]


def paired_clocks(
    functions: Mapping[Name, Callable], repeats: int
) -> tuple[dict[Name, list[float]], dict[Name, list[float]]]:
    """Extend `paired_seconds` by all threads' processor seconds, steadier on busy machines.

    Garbage is collected only between the rounds: a collection before every call would empty the caches of the short
    ones. Each round begins with another function, since the first one finds the caches emptied.
    """
    clocks = (time.perf_counter, time.process_time)
    wall: dict[Name, list[float]] = {name: [] for name in functions}
    processor: dict[Name, list[float]] = {name: [] for name in functions}
    with _no_garbage_collection():
        for turn in range(repeats):
            gc.collect()
            begin = turn % len(functions)
            for name, function in [*functions.items()][begin:] + [*functions.items()][:begin]:
                start = [clock() for clock in clocks]
                function()
                for clock, begun, found in zip(clocks, start, (wall, processor)):
                    found[name].append(clock() - begun)
    return wall, processor


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
    """Return the median over the rounds of numerator / denominator."""
    return statistics.median(above / below for above, below in zip(numerator, denominator))
