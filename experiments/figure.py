"""One figure of the thesis: its cells, what is missing of them, and the picture.

Regenerates: the figures in `FIGURES`, each in a module of `experiments/studies` that says what it shows.
Command: python -m experiments.figure --id=3.6 --dataset=glyphs --budget=demo --run
Expected: what the thesis says about each figure, in the study's module; no curve of any figure is printed as numbers.
Cost: without `--run` seconds; with it, what the list of cells says (`--budget=demo` 10 to 15 minutes on 2 CPU cores).
"""

from __future__ import annotations

from experiments.quiet_start import quiet_start

with quiet_start():
    from experiments import flags as experiment_flags
    from experiments.studies.batch_size import batch_size
    from experiments.studies.fixed_proxies import FixedProxies
    from experiments.studies.lambda_and_proxies import LambdaAndProxies
    from experiments.studies.pool_size import pool_size
    from experiments.studies.study_command import define_study_flags, run_study

FIGURES = {
    "3.5": LambdaAndProxies,
    "3.6": pool_size,
    "3.7": FixedProxies,
    "3.8": batch_size,
}


def main() -> None:
    """Lists, runs and draws the figure that `--id` names."""
    run_study("figure", FIGURES)


if __name__ == "__main__":
    define_study_flags(FIGURES)
    experiment_flags.run_command(main)
