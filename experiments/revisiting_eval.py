"""The "Revisiting" benchmark: 100 or 150 epochs at one rate, each tested.

ResNet-50 with frozen batch normalisation, 128-D, batches of 112 with two images per class, Adam at 1e-5 with coupled
weight decay 4e-4; R@1, R@2, R@4 and NMI on the test set after every epoch. The dissertation prints, by its published
script, each metric's own maximum over epochs. We also print the last epoch and, from a second training, the epoch
chosen on a held-out tenth of the training classes. Rows of chapters 3 to 5 have what their chapter prints instead.

Regenerates: Milbich's dissertation, table 2.2, one row per loss; rows of tables 3.4, 4.2, 4.3 and 5.1 by the name of a
    loss with features or PADS and `--embedding_dim`.
Command: python -m experiments.revisiting_eval --dataset=cub200 --loss=ms,pnca --data_dir=data
Expected: table 2.2, Multisimilarity on CUB200: R@1 62.80 +- .70, NMI 68.55 +- .38; Pnca 62.80 +- .48 and 66.93 +- .38.
Cost: `--dataset=glyphs --budget=smoke` a minute on 2 CPU cores; CUB about three GPU hours per run (estimated), ten
    runs per row with both stopping rules.
"""

from __future__ import annotations

from absl import flags

from experiments.protocols.conventional import define_flags, evaluate
from experiments.protocols.conventional_report import RevisitingReport
from experiments.protocols.recording import record_finished
from experiments.settings import flags as experiment_flags
from experiments.settings.run_settings import REVISITING


def main() -> None:
    """Train the missing runs of all named methods, report and record."""
    values = flags.FLAGS
    experiment_flags.refuse_flags(values, "recipe", because="this protocol is its own recipe")
    record_finished(evaluate(values, RevisitingReport), experiment_flags.places_from(values))


if __name__ == "__main__":
    define_flags(repeats=5)
    flags.FLAGS.set_default("recipe", REVISITING)
    experiment_flags.run_command(main)
