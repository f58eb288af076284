"""One figure of the thesis: its runs, the missing ones, and the picture.

Regenerates: the figures in `FIGURES`, each in a module of `experiments/studies` that explains it.
Command: python -m experiments.figure --id=3.6 --dataset=glyphs --budget=demo --run
Expected: the thesis' statement on each figure, in the study's module; no figure's curves are printed as numbers.
Cost: without `--run` seconds; with it, as the list of cells states (`--budget=demo` 10 to 15 minutes on 2 CPU cores).
"""

from __future__ import annotations

from absl import flags

from common.errors import check_choice
from experiments.plans.study_command import define_study_flags, run_study
from experiments.settings import flags as experiment_flags
from experiments.settings.run_settings import CONVENTIONAL_PROTOCOLS
from experiments.studies.collages import STARTS
from experiments.studies.figures import DEFAULTS, FIGURES, FULL_REPEATS, OWN_FIGURES
from experiments.studies.mnist import ANCHORS

_OWN_FLAGS = {
    **{"3.2": ["anchors"], "5.5": ["starts"], "attention": ["trained_run"]},
    "milbich_2.4": ["protocol", "training", "clustering"],
}


def define_figure_flags() -> None:
    """Define the flags of all studies, and those of single figures."""
    define_study_flags([*FIGURES, *OWN_FIGURES])
    stand_for_classes = f"For --id=3.2: what stands for the classes: {', '.join(ANCHORS)}."
    flags.DEFINE_list("anchors", ["proxies", "samples"], stand_for_classes)
    flags.DEFINE_list("starts", None, f"For --id=5.5: where networks start, by default all of {', '.join(STARTS)}.")
    flags.DEFINE_string("trained_run", None, "For --id=attention: a finished run's directory.")
    protocols = ", ".join(("fair", *CONVENTIONAL_PROTOCOLS))
    flags.DEFINE_string("protocol", "fair", f"For --id=milbich_2.4: protocol of the runs, one of {protocols}.")
    flags.DEFINE_boolean("training", False, "For --id=milbich_2.4: also diagnostics of the training embeddings.")
    flags.DEFINE_boolean("clustering", False, "For --id=milbich_2.4: also NMI of k-means.")


def main() -> None:
    """List, run and draw the figure that `--id` names."""
    values = flags.FLAGS
    study_id = check_choice("--id", values.id, [*FIGURES, *OWN_FIGURES])
    of_others = (name for owner, names in _OWN_FLAGS.items() for name in names if owner != study_id)
    experiment_flags.refuse_flags(values, *of_others, because=f"figure {study_id} does not have it")
    if study_id in OWN_FIGURES:
        OWN_FIGURES[study_id](values)
    else:
        run_study(values, "figure", FIGURES, DEFAULTS, FULL_REPEATS)


if __name__ == "__main__":
    define_figure_flags()
    experiment_flags.run_command(main)
