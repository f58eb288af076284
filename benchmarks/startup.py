"""Start times without training: `--help`, `--explain`, a refusal, a table's cells.

Each start is a process of its own; all of them, and `import tensorflow` alone, take turns. Processor time is that of
the process, user and system; on a busy machine it is more reliable than the clock. A first start of each, which writes
Python's byte code, is not counted.

Last line: `help_s`, `explain_s`, `refusal_s`, `listing_s` and `tensorflow_import_s`, medians of the clock, and the same
with `_processor_s`.

Command: python -m benchmarks.startup [--repeats=5]
"""

from __future__ import annotations

import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from absl import app, flags

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


def main(_: list[str]) -> None:
    """Time all starts in turn and print the table and the figures."""
    with tempfile.TemporaryDirectory() as folder:
        for name in STARTS:
            timed(name, folder)
        rounds = [{name: timed(name, folder) for name in STARTS} for _ in range(flags.FLAGS.repeats)]
    found = {name: list(zip(*(each[name] for each in rounds))) for name in STARTS}  # by the clock, of the processor
    rows = [(" ".join(STARTS[name]), spread(clock), spread(processor)) for name, (clock, processor) in found.items()]
    print_table(("start", "s", "processor s"), rows)
    figures = {}
    for name, both in found.items():
        figures |= {f"{name}{kind}": statistics.median(seconds) for kind, seconds in zip(("_s", "_processor_s"), both)}
    print_figures(figures)


def timed(name: str, folder: str) -> tuple[float, float]:
    """Return the seconds of one start: by the clock, and of all its threads.

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
    return seconds, processor


if __name__ == "__main__":
    flags.DEFINE_integer("repeats", 5, "Starts of each command.", lower_bound=1)
    app.run(main)
