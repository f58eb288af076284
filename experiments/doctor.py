"""State of this installation: versions, devices, memory, disk, optional parts.

Regenerates: nothing.
Command: python -m experiments.doctor
Expected: a table, then "Training can run." and exit code 0; else the problems and exit code 1.
Cost: the start of TensorFlow, a few seconds.
"""

from __future__ import annotations

import sys
import textwrap

from absl import flags

from common.files import default_cache_dir
from experiments.preparation.machine import findings
from experiments.settings import flags as experiment_flags

WIDTH = 100


def main() -> None:
    """Print the findings; exit with 1 if training cannot run."""
    values = flags.FLAGS
    found, problems = findings(values.cache_dir or default_cache_dir(), values.runs_dir)
    column = 2 + max(map(len, found))
    for name, text in found.items():
        print(textwrap.fill(text, WIDTH, initial_indent=f"{name:{column}}", subsequent_indent=" " * column))
    for problem in problems:
        print(textwrap.fill(f"Problem: {problem}", WIDTH))
    if problems:
        sys.exit(1)
    print("Training can run.")


if __name__ == "__main__":
    experiment_flags.define("cache_dir", "runs_dir")
    experiment_flags.run_command(main)
