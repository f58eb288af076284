"""Rehearsal at an official data set's size, on synthetic images.

Regenerates: nothing; shows before weeks of training what would fail at full scale, and what it needs.
Command: python -m experiments.rehearse --dataset=sop --scale=0.05 --work_dir=rehearsal
    (the same command resumes; the folder can be removed afterwards)
Expected: a table of stages with time, peak memory and disk, and the cost of thesis table 5.1 with such steps.
Cost: SOP at --scale=0.01 four minutes on a CPU core, at --scale=1 about an hour and a half (extrapolated) and 1.2 GB.
"""

from __future__ import annotations

import pathlib

from absl import flags

from common.errors import check_choice, check_fraction, check_positive
from experiments.settings import build
from experiments.settings import flags as experiment_flags

DATASETS = ("sop", "inshop", "cars196", "cub200")


def main() -> None:
    """Go through the stages, then print their figures."""
    values = flags.FLAGS
    check_choice("--dataset", values.dataset, DATASETS)
    check_fraction("--scale", values.scale)
    if values.step_seconds is not None:
        check_positive("--step_seconds", values.step_seconds)
    if values.backbone is not None:
        build.check_backbone_name(values.backbone)
    from experiments.plans.fair_table import THESIS_REPEATS
    from experiments.plans.study import StudyOptions
    from experiments.preparation.machine import GPU, device_line
    from experiments.protocols.rehearsal import Rehearsal, describe
    from experiments.studies.fair_tables import gsp_table

    has_gpu = device_line().startswith(GPU)
    names = [values.dataset, f"{values.scale:g}", *([values.backbone] if values.backbone else [])]
    folder = pathlib.Path(values.work_dir) / "-".join(names)
    stages = Rehearsal(values.dataset, values.scale, folder, values.backbone, has_gpu).run()
    overrides = {"backbone": values.backbone} if values.backbone else {}
    table = gsp_table(StudyOptions(values.dataset, "full", repeats=THESIS_REPEATS[5], overrides=overrides))
    cells = [cell.config for group in table.groups.values() for cell in group]
    title = f"Rehearsal of {values.dataset} at scale {values.scale:g}"
    print(describe(stages, title, cells, values.step_seconds), end="")


if __name__ == "__main__":
    flags.DEFINE_string("dataset", None, f"Data set: one of {', '.join(DATASETS)}.", required=True)
    flags.DEFINE_float("scale", 1.0, "Share of the official classes and images, in (0, 1].")
    flags.DEFINE_string("work_dir", "rehearsal", "Folder of images, copies and runs, by data set and scale.")
    flags.DEFINE_float("step_seconds", None, "Seconds of a training step for the whole table (default: as measured).")
    flags.DEFINE_string("backbone", None, "Network (default: the recipe's).")
    experiment_flags.run_command(main, kept="Finished images and runs are kept; run the same command to resume.")
