"""Does alternating between projection problems help? CCP on MNIST in the plane, where one can look at it.

Regenerates: thesis figure 3.2 (panels before and after each problem); samples against proxies (section 3.3.1).
Command: python -m experiments.mnist_study --data_dir=mnist --repeats=3
Expected: MAP@R .85 -> .97 and covering radius .52 -> .27 from (a) to (b.4); 98.06 with samples, 97.21 with proxies.
Cost: about 40 minutes on 2 CPU cores, a third a seed; `--budget=demo --repeats=1` 8, `--budget=smoke` one.
"""

from __future__ import annotations

import dataclasses
import hashlib
import pathlib
from typing import Any

from absl import flags

from experiments.quiet_start import quiet_start

with quiet_start():
    from common import data
    from common.ops.checks import check_choice
    from common.training import RunDirectory
    from experiments import build
    from experiments import flags as experiment_flags
    from experiments.mnist_report import StudyRun, write_report
    from experiments.mnist_training import ANCHORS, MnistSettings, MnistTraining
    from experiments.recipes import BUDGETS
    from experiments.splits import unit_seed

BUDGET_SETTINGS = {
    "full": {},
    "demo": {"max_steps": 1200},
    "smoke": {
        "max_steps": 6,
        "steps_per_evaluation": 1,
        "projection_patience": 1,
        "start_steps": 1,
        "num_problems": 2,
        "validation_per_class": 4,
    },
}
TUNABLE = (
    "learning_rate",
    "negative_margin",
    "in_batch_weight",
    "samples_per_class",
    "steps_per_evaluation",
    "max_steps",
    "start_steps",
    "num_problems",
)


def main() -> None:
    """Trains what is missing, seed by seed, then reports."""
    values = flags.FLAGS
    check_choice("--budget", values.budget, BUDGETS)
    for anchors in values.anchors:
        check_choice("--anchors", anchors, ANCHORS)
    dataset = data.load_mnist(values.data_dir)
    fingerprint = build.data_fingerprint(dataset)
    overrides = {name: flags.FLAGS[name].value for name in TUNABLE if flags.FLAGS[name].present}
    chosen_values: dict[str, Any] = {**BUDGET_SETTINGS[values.budget], **overrides}
    settings = MnistSettings(**chosen_values)
    runs: list[StudyRun] = []
    for repeat in range(values.repeats):
        for anchors in values.anchors:
            chosen = dataclasses.replace(settings, anchors=anchors, seed=unit_seed(values.seed, 0, repeat))
            runs.append(_trained(_as_long_as(runs, chosen), dataset, fingerprint, repeat))
    digest = hashlib.sha256(repr([run.settings for run in runs]).encode()).hexdigest()[:10]
    print(write_report(runs, dataset, pathlib.Path(values.runs_dir) / "mnist_study" / f"report-{digest}"))


def _as_long_as(runs: list[StudyRun], settings: MnistSettings) -> MnistSettings:
    """Fixed proxies are trained for as many steps as CCP with the same seed, if that was trained before."""
    steps = [
        run.result["steps"] for run in runs if (run.settings.anchors, run.settings.seed) == ("proxies", settings.seed)
    ]
    if settings.anchors != "fixed proxies" or not steps:
        return settings
    return dataclasses.replace(settings, max_steps=steps[0])


def _trained(settings: MnistSettings, dataset: data.Dataset, fingerprint: str, repeat: int) -> StudyRun:
    """Trains one network unless it is finished."""
    identity = {**settings.as_dict(), "data": fingerprint}
    digest = hashlib.sha256(repr(sorted(identity.items())).encode()).hexdigest()[:10]
    name = f"{settings.anchors.replace(' ', '_')}-{digest}"
    run = RunDirectory(pathlib.Path(flags.FLAGS.runs_dir) / "mnist_study" / name, identity)
    result = run.read_result()
    if result is None:
        with run.locked():
            result = MnistTraining(settings, dataset, run).train(flags.FLAGS.checkpoint_seconds)
    return StudyRun(settings, repeat, run.path, result)


def define_flags() -> None:
    """Defines this command's flags."""
    flags.DEFINE_string("data_dir", None, "Folder of MNIST's four IDX files, or of Keras' mnist.npz.")
    flags.DEFINE_string("runs_dir", "runs", "Folder for results.")
    flags.DEFINE_string("budget", "full", f"Length of training: {', '.join(BUDGETS)}.")
    flags.DEFINE_list("anchors", ["proxies", "samples"], f"What stands for the classes: {', '.join(ANCHORS)}.")
    flags.DEFINE_integer("seed", 0, "Of everything random.", lower_bound=0)
    flags.DEFINE_integer("repeats", 3, "Trainings of each kind, with different seeds.", lower_bound=1)
    experiment_flags.define_session_flags()
    defaults = MnistSettings()
    for name in TUNABLE:
        define = flags.DEFINE_float if isinstance(getattr(defaults, name), float) else flags.DEFINE_integer
        define(name, getattr(defaults, name), "Setting of the trainings, in the place of the budget's.", lower_bound=0)


if __name__ == "__main__":
    define_flags()
    experiment_flags.run_command(main)
