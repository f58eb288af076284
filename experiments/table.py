"""One table of the thesis, or of the "Revisiting" benchmark's losses: its cells, what is missing, the printed figures.

Regenerates: the tables in `TABLES`, each in a module of `experiments/studies` that says what it shows.
Command: python -m experiments.table --id=3.3 --dataset=glyphs --budget=demo --run
Expected: the printed cells, beside ours in the table itself.
    `--id=agreement --study=results/...` trains nothing: it says how recorded studies rank methods beside the print.
Cost: without `--run` seconds; with it, what the list of cells says (`--budget=demo` 10 to 15 minutes on 2 CPU cores).
"""

from __future__ import annotations

from absl import flags

from experiments.process.quiet_start import quiet_start

with quiet_start():
    from experiments.settings import flags as experiment_flags
    from experiments.studies.agreement import AGREEMENT, run_agreement
    from experiments.studies.ccp_table import ccp_table
    from experiments.studies.conventional_table import (
        ccp_bn_inception,
        ccp_resnet50,
        gsp_bn_inception,
        gsp_resnet50,
    )
    from experiments.studies.gsp_parts import gsp_parts
    from experiments.studies.gsp_table import gsp_table
    from experiments.studies.loss_benchmark import loss_benchmark
    from experiments.studies.screening import Screening
    from experiments.studies.study_command import define_study_flags, run_study
    from experiments.studies.training_steps import TrainingSteps
    from experiments.studies.warm_benchmark import warm_benchmark

TABLES = {
    "3.1": ccp_table,
    "3.2a": ccp_bn_inception,
    "3.2b": ccp_resnet50,
    "3.3": TrainingSteps,
    "5.1": gsp_table,
    "5.2a": gsp_bn_inception,
    "5.2b": gsp_resnet50,
    "5.3": gsp_parts,
    "5.4": Screening,
    "losses": loss_benchmark,
    "warm": warm_benchmark,
}
DEFAULTS = {table: {"repeats": 3} for table in ("3.2a", "3.2b", "5.2a", "5.2b")}  # of flags: the best of three
FULL_REPEATS = {"5.1": 3, "5.3": 3, "5.4": 3, "warm": 3}  # thesis section 5.3.4.1; chapter 3 trains once


def main() -> None:
    """Lists, runs and writes the table that `--id` names."""
    if flags.FLAGS.id == AGREEMENT:
        run_agreement()
    else:
        run_study("table", TABLES, DEFAULTS, FULL_REPEATS)


if __name__ == "__main__":
    define_study_flags([*TABLES, AGREEMENT])
    experiment_flags.run_command(main)
