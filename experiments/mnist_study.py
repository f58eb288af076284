"""CCP on MNIST in two dimensions: do alternating projection problems help?

Regenerates: thesis figure 3.2 (panels before and after each problem); samples against proxies (section 3.3.1).
Command: python -m experiments.mnist_study --data_dir=mnist --repeats=3
Expected: MAP@R .85 -> .97 and covering radius .52 -> .27 from (a) to (b.4); 98.06 with samples, 97.21 with proxies.
Cost: about 40 minutes on 2 CPU cores, a third of it per seed; `--budget=demo --repeats=1` 8, `--budget=smoke` one.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import pathlib
from typing import Any

from absl import flags

from common import data
from common.errors import check_all, check_choice
from common.progress import write_notice
from experiments.preparation.machine import device_line
from experiments.protocols.recording import record_methods
from experiments.protocols.report_files import print_report
from experiments.reports import UnitRun
from experiments.runs.splits import unit_seed
from experiments.settings import build
from experiments.settings import flags as experiment_flags
from experiments.settings.places import Places
from experiments.settings.run_settings import BUDGETS
from experiments.studies.mnist_report import as_long_as, recordable, trained, write_report
from experiments.studies.mnist_settings import ANCHORS, BUDGET_SETTINGS, TUNABLE, MnistSettings


def main() -> None:
    """Train the missing runs, seed by seed, then report."""
    values = flags.FLAGS
    *_, dataset = check_all(
        [
            lambda: check_choice("--budget", values.budget, BUDGETS),
            *(functools.partial(check_choice, "--anchors", anchors, ANCHORS) for anchors in values.anchors),
            lambda: data.load_mnist(values.data_dir),
        ]
    )
    fingerprint = build.data_fingerprint(dataset)
    overrides = {name: values[name].value for name in TUNABLE if values[name].present}
    chosen_values: dict[str, Any] = {**BUDGET_SETTINGS[values.budget], **overrides}
    settings = MnistSettings(**chosen_values)
    write_notice(device_line())
    places = {"runs_dir": values.runs_dir, "checkpoint_seconds": values.checkpoint_seconds}
    used: list[MnistSettings] = []
    runs: list[UnitRun] = []
    for repeat in range(values.repeats):
        for anchors in values.anchors:
            chosen = dataclasses.replace(settings, anchors=anchors, seed=unit_seed(values.seed, 0, repeat))
            used.append(as_long_as(runs, chosen, repeat))
            runs.append(trained(used[-1], dataset, fingerprint, repeat, **places))
    digest = hashlib.sha256(repr(used).encode()).hexdigest()[:10]
    folder = pathlib.Path(values.runs_dir) / "mnist_study" / f"report-{digest}"
    print_report(write_report(runs, dataset, folder), folder, values.details)
    methods = recordable(runs, dataset)
    recorded = Places(values.runs_dir, study=values.record, replace=values.replace)
    record_methods([named for _, named in methods], recorded, [runs for runs, _ in methods])


if __name__ == "__main__":
    flags.DEFINE_string("data_dir", None, "Folder of MNIST's four IDX files, or of Keras' mnist.npz.")
    flags.DEFINE_string("budget", "full", f"Length of training: {', '.join(BUDGETS)}.")
    flags.DEFINE_list("anchors", ["proxies", "samples"], f"What stands for the classes: {', '.join(ANCHORS)}.")
    flags.DEFINE_integer("seed", 0, "Of everything random.", lower_bound=0)
    flags.DEFINE_integer("repeats", 3, "Runs of each kind, with different seeds.", lower_bound=1)
    experiment_flags.define("runs_dir", *experiment_flags.RECORD_FLAGS, "details", *experiment_flags.SESSION_FLAGS)
    defaults = MnistSettings()
    for name in TUNABLE:
        define = flags.DEFINE_float if isinstance(getattr(defaults, name), float) else flags.DEFINE_integer
        define(name, getattr(defaults, name), "Setting of the runs, instead of the budget's.", lower_bound=0)
    experiment_flags.run_command(main)
