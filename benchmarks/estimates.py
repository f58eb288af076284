"""Estimated durations of runs beside measured ones, ten methods.

Command: python -m benchmarks.estimates [--steps=300]

Trains EfficientNet-lite0 on emoji of 96 pixels: C2, then nine other methods. The duration is that of the whole run, by
the clock: building, training, a validation each 100 steps, tests. Estimates of the nine are those that a listing prints
after the run of C2. 15 minutes where a step takes .1 s and nothing else runs. Last line: one JSON object.

`largest_relative_error`: of an estimate, over the measured duration.
"""

from __future__ import annotations

import argparse
import pathlib
import tempfile
import time

from benchmarks.measure import print_figures, print_table
from experiments import reports
from experiments.runs.cost import estimated_seconds, rate_of
from experiments.runs.unit_runs import UnitRuns
from experiments.settings import build
from experiments.settings.places import Places
from experiments.settings.recipes import resolve
from experiments.studies.planned import GSP, WIDE

METHODS = (  # loss, pooling, method, settings
    ("c2", "gap", "plain", {}),
    ("c1", "gap", "plain", {}),
    ("ms", "gap", "plain", {}),
    ("pnca", "gap", "plain", {}),
    ("panchor", "gap", "plain", {}),
    ("margin+distance", "gap", "plain", {}),
    ("c2+xbm", "gap", "plain", {}),
    ("ms", "gap", "ccp", {}),
    ("ms", "gap", "plain", WIDE),
    ("ms", "gsp", "plain", GSP),
)


def main() -> None:
    """Train the methods, and print estimates and durations."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300, help="of training, at least 100")
    steps = parser.parse_args().steps
    if steps < 100:
        parser.error(f"--steps={steps}: expected at least 100")
    rows, errors, timed = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        runs = UnitRuns(build.load_dataset("emoji", None, None, seed=0), Places(runs_dir=folder))
        for loss, pooling, method, settings in METHODS:
            schedule = {"max_steps": steps, "steps_per_evaluation": 100, "fold_batch_norm": True, **settings}
            config = resolve("emoji", loss, pooling, "thesis", "demo", schedule, method)
            start = time.perf_counter()
            runs.train(config, 0, 0)
            measured = time.perf_counter() - start
            estimated = estimated_seconds(config, rate_of(config, timed))
            row = [config.name + ", stride 16" * ("output_stride" in settings), f"{estimated:.0f}", f"{measured:.0f}"]
            if timed:
                errors.append(abs(estimated / measured - 1))
                row.append(f"{100 * (estimated / measured - 1):+.0f} %")
            else:
                unit = reports.collect_method(pathlib.Path(runs.method_dir(config))).finished[0, 0]
                timed = [(config, unit)]
            rows.append(row + [""] * (4 - len(row)))
    print_table(("method", "estimated s", "measured s", "error"), rows)
    print_figures({"largest_relative_error": max(errors)})


if __name__ == "__main__":
    main()
