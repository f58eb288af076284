"""One figure of the thesis: its cells, the missing ones, and the picture.

Regenerates: the figures in `FIGURES` and `EXTERNAL_FIGURES`; each has an explaining module in `experiments/studies`.
Command: python -m experiments.figure --id=3.6 --dataset=glyphs --budget=demo --run
Expected: the thesis' statement on each figure, in the study's module; no figure's curves are printed as numbers.
Cost: without `--run` seconds; with it, as the list of cells states (`--budget=demo` 10 to 15 minutes on 2 CPU cores).
"""

from __future__ import annotations

from absl import flags

from experiments.plans.study_command import define_study_flags, run_study
from experiments.settings import flags as experiment_flags
from experiments.studies.external_figures import EXTERNAL_FIGURES, run_external_figure
from experiments.studies.figures import DEFAULTS, FIGURES, FULL_REPEATS


def main() -> None:
    """List, run and draw the figure that `--id` names."""
    if flags.FLAGS.id in EXTERNAL_FIGURES:
        run_external_figure(flags.FLAGS)
    else:
        run_study(flags.FLAGS, "figure", FIGURES, DEFAULTS, FULL_REPEATS)


if __name__ == "__main__":
    define_study_flags({**EXTERNAL_FIGURES, **FIGURES})
    experiment_flags.run_command(main)
