"""Conventional evaluation: best R@1 on the test set, and an unbiased figure.

Every method is trained in two ways. The first follows the literature: it trains on all training classes, and R@1 *on
the test set* chooses the learning rate, the stopping step and the weights. The second holds out a tenth of the training
classes for these choices and evaluates the test set once. The difference is the protocol's optimism.

Regenerates: rows of thesis tables 3.2a/b (`--method=ccp`) and 5.2a/b.
Command: python -m experiments.conventional_eval --dataset=sop --data_dir=data --loss=c1+xbm --pooling=gap+gmp,gmp+gsp
    --weights=bn_inception.npz (`experiments.convert_weights` makes that file; for table 5.2b, use
    `--backbone=resnet50 --embedding_dim=128` instead, for table 3.2b `--backbone=resnet50`)
Expected: thesis table 5.2a, C1+XBM on SOP: R@1 79.29 (MAP@R 52.59), with GSP 79.59; table 3.2a, C2+CCP on SOP: 80.01.
Cost: `--dataset=glyphs --budget=smoke` some minutes on 2 CPU cores; `--budget=full` on SOP three runs of
    16 hours a method that stop on the test set and three of 10 hours beside them on an RTX 2080 Ti (estimated).
"""

from __future__ import annotations

import functools

from absl import flags

from experiments.deployment.writing import model_writer
from experiments.protocols.conventional import DEFAULT_REPEATS, define_flags, evaluate
from experiments.protocols.recording import record_finished
from experiments.settings import flags as experiment_flags


def main() -> None:
    """Train the missing runs of all named methods, report and record."""
    values = flags.FLAGS
    writer = functools.partial(model_writer, cache_dir=values.cache_dir) if values.export_model else None
    record_finished(evaluate(values, afterwards=writer), experiment_flags.places_from(values))


if __name__ == "__main__":
    define_flags(DEFAULT_REPEATS)
    experiment_flags.define("export_model")
    flags.FLAGS.set_default("pooling", "gap+gmp")
    experiment_flags.run_command(main)
