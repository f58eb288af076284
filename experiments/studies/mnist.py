"""CCP on MNIST in two dimensions: do alternating projection problems help?

Regenerates: thesis figure 3.2 (panels before and after each problem); samples against proxies (section 3.3.1).
Expected: MAP@R .85 -> .97 and covering radius .52 -> .27 from (a) to (b.4); 98.06 with samples, 97.21 with proxies.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import pathlib
from typing import Any

from absl import flags

from common import data
from common.errors import check_all, check_choice, check_non_negative, check_positive
from common.progress import write_notice
from experiments.plans.study_command import refuse_all_but
from experiments.preparation.machine import device_line
from experiments.protocols.recording import record_finished
from experiments.protocols.report_files import print_report
from experiments.rows.rows import Row
from experiments.runs.cost import duration
from experiments.settings import build, flags as experiment_flags
from experiments.settings.run_settings import BUDGETS
from experiments.settings.splits import unit_seed

ANCHORS = ("proxies", "samples", "fixed proxies")
BUDGET_SETTINGS: dict[str, dict[str, Any]] = {
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
_MINUTES = {"full": 7, "demo": 4, "smoke": 0.2}  # of a run on 2 CPU cores
_FLAGS = {  # of a setting
    **{name: name for name in ("learning_rate", "negative_margin", "samples_per_class")},
    **{name: name for name in ("steps_per_evaluation", "max_steps")},
    "in_batch_weight": "ccp_in_batch_weight",
    "start_steps": "ccp_start",
    "num_problems": "ccp_max_problems",
}
_KEPT = (
    *("data_dir", "runs_dir", "run", "budget", "anchors", "seed", "repeats", "details"),
    *(*experiment_flags.RECORD_FLAGS, *experiment_flags.SESSION_FLAGS, *_FLAGS.values()),
)


def run_mnist(values: flags.FlagValues) -> None:
    """Report the finished runs; with `--run`, train the missing ones before, seed by seed."""
    from experiments.studies.mnist_report import as_long_as, finished_run, recordable, trained, write_report

    refuse_all_but(values, _KEPT, because="the runs on MNIST have few settings")
    values.set_default("repeats", 3)
    *_, dataset = check_all(
        [
            lambda: check_choice("--budget", values.budget, BUDGETS),
            *(functools.partial(check_choice, "--anchors", anchors, ANCHORS) for anchors in values.anchors),
            lambda: data.load_mnist(values.data_dir),
        ]
    )
    given = {name: values[flag].value for name, flag in _FLAGS.items() if values[flag].present}
    settings = MnistSettings(**{**BUDGET_SETTINGS[values.budget], **given})
    fingerprint = build.data_fingerprint(dataset)
    if values.run:
        write_notice(device_line())
    used: list[MnistSettings] = []
    runs: list[Row] = []
    for repeat in range(values.repeats):
        for anchors in values.anchors:
            chosen = dataclasses.replace(settings, anchors=anchors, seed=unit_seed(values.seed or 0, 0, repeat))
            used.append(as_long_as(runs, chosen, repeat))
            place = used[-1], fingerprint, repeat, values.runs_dir
            run = trained(*place, dataset, values.checkpoint_seconds) if values.run else finished_run(*place)
            runs += [] if run is None else [run]
    if missing := len(used) - len(runs):
        cost = duration(60 * missing * _MINUTES[values.budget])
        print(
            f"MNIST in the plane before and after each projection problem (thesis figure 3.2)\n{len(used)} cells: "
            f"{len(runs)} done, {missing} missing, about {cost} on 2 CPU cores. --run trains what is missing."
        )
    if not runs:
        return
    digest = hashlib.sha256(repr(used).encode()).hexdigest()[:10]
    folder = pathlib.Path(values.runs_dir) / "figures" / "3.2" / digest
    print_report(write_report(runs, dataset, folder), folder, values.details)
    if values.record:
        record_finished(recordable(runs, dataset), experiment_flags.places_from(values))


@dataclasses.dataclass(frozen=True)
class MnistSettings:
    """Settings that decide the outcome of a run.

    The thesis gives the first five; the others are ours, see `docs/results/figures.md`.
    """

    anchors: str = "proxies"  # CCP, digits instead of proxies, or one endless problem: longer training alone
    embedding_dim: int = 2
    anchors_per_class: int = 4  # proxies or samples of a digit
    pool_size: int = 16  # digits of a class from which the next proxies are chosen
    ccp_lambda: float = 2e-4  # of the proximal term
    positive_margin: float = 0.0  # of C2, like the next
    negative_margin: float = 0.5  # ten points on the unit circle are .62 apart
    in_batch_weight: float = 0.0  # of C2; 0 as the thesis writes the loss, .1 in its published code
    samples_per_class: int = 4
    learning_rate: float = 1e-3  # of Adam, constant, for network and proxies
    beta_2: float = 0.99
    weight_decay: float = 1e-4
    start_steps: int = 300  # of C2 alone, so that the first proxies are embeddings of a trained network
    num_problems: int = 5  # training ends with the last: (a), (b.1) ... (b.4) of the figure
    projection_patience: int = 3  # evaluations without improvement that end a problem
    steps_per_evaluation: int = 50
    max_steps: int = 2400
    validation_per_class: int = 100  # training digits held out to end the problems
    seed: int = 0

    def __post_init__(self):
        check_choice("--anchors", self.anchors, ANCHORS)
        for name in ("learning_rate", "samples_per_class", "num_problems", "max_steps", "steps_per_evaluation"):
            check_positive(f"--{_FLAGS[name]}", getattr(self, name))
        check_non_negative(f"--{_FLAGS['start_steps']}", self.start_steps)

    def as_dict(self) -> dict:
        """Return JSON values of all fields."""
        return dataclasses.asdict(self)
