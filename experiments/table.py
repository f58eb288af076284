"""One table of the thesis or "Revisiting" benchmark: runs and their figures.

Regenerates: the tables in `TABLES`, each in a module of `experiments/studies` that explains it.
Command: python -m experiments.table --id=3.3 --dataset=glyphs --budget=demo --run
Expected: the printed cells, beside ours in the table itself.
    `--id=claims` trains nothing; it compares recorded studies (`--study`) with the thesis.
Cost: without `--run` seconds; with it, as the list of cells states (`--budget=demo` 10 to 15 minutes on 2 CPU cores).
"""

from __future__ import annotations

from absl import flags

from experiments.plans.study_command import define_study_flags, run_study
from experiments.settings import flags as experiment_flags
from experiments.studies.tables import CLAIMS_ID, DEFAULTS, FULL_REPEATS, TABLES


def main() -> None:
    """List, run and write the table that `--id` names."""
    if flags.FLAGS.id == CLAIMS_ID:
        from experiments.studies.claims import run_claims

        run_claims(flags.FLAGS)
    else:
        run_study(flags.FLAGS, "table", TABLES, DEFAULTS, FULL_REPEATS)


if __name__ == "__main__":
    define_study_flags([*TABLES, CLAIMS_ID])
    experiment_flags.run_command(main)
