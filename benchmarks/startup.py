"""Start times without training: `--help`, `--explain`, a refusal, a table's cells.

Each start is a process of its own; all of them, and `import tensorflow` alone, take turns. Processor time is that of
the process, user and system; on a busy machine it is more reliable than the clock. A first start of each, which writes
Python's byte code, is not counted.

Last line: `help_s`, `explain_s`, `refusal_s`, `listing_s` and `tensorflow_import_s`, medians of the clock, and the same
with `_processor_s`.

Command: python -m benchmarks.startup [--repeats=5]
"""

from __future__ import annotations

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.measure import print_figures, print_table, spread

STARTS = {
    "help": ("-m", "experiments.fair_eval", "--help"),
    "explain": ("-m", "experiments.fair_eval", "--explain", "--methods=c2+ccp+gsp,margin+distance+rho+xbm+gap"),
    "refusal": ("-m", "experiments.fair_eval", "--transport_ratios=0.5"),
    "listing": ("-m", "experiments.table", "--id=5.1"),
    "tensorflow_import": ("-c", "import tensorflow"),
}
EXIT_CODES = {"refusal": 2}  # of the others: 0
_ROOT = pathlib.Path(__file__).resolve().parent.parent


class Start(NamedTuple):
    """One start.

    Attributes:
        seconds: by the clock.
        processor_seconds: of all its threads.
    """

    seconds: float
    processor_seconds: float


def main() -> None:
    """Time all starts in turn and print the table and the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5, help="starts of each command")
    repeats = parser.parse_args().repeats
    with tempfile.TemporaryDirectory() as folder:
        for name in STARTS:
            timed(name, folder)
        rounds = [{name: timed(name, folder) for name in STARTS} for _ in range(repeats)]
    found = {name: [each[name] for each in rounds] for name in STARTS}
    rows = [
        (" ".join(STARTS[name]), spread([start.seconds for start in starts]), spread(_processor(starts)))
        for name, starts in found.items()
    ]
    print_table(("start", "s", "processor s"), rows)
    clock = {f"{name}_s": statistics.median(start.seconds for start in starts) for name, starts in found.items()}
    processor = {f"{name}_processor_s": statistics.median(_processor(starts)) for name, starts in found.items()}
    print_figures(clock | processor)


def timed(name: str, folder: str) -> Start:
    """Time one start of a command in an empty folder.

    Args:
        name: of `STARTS`.
        folder: the process' working folder.

    Raises:
        RuntimeError: it ended unexpectedly; with its output.
    """
    environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before, began = os.times(), time.perf_counter()
    finished = subprocess.run(
        [sys.executable, *STARTS[name]], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    seconds, after = time.perf_counter() - began, os.times()
    if finished.returncode != EXIT_CODES.get(name, 0):
        raise RuntimeError(f"{' '.join(STARTS[name])} ended with {finished.returncode}: {finished.stderr}")
    processor = (after.children_user + after.children_system) - (before.children_user + before.children_system)
    return Start(seconds, processor)


def _processor(starts: Sequence[Start]) -> list[float]:
    return [start.processor_seconds for start in starts]


if __name__ == "__main__":
    main()
