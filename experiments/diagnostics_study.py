"""Rank correlations of diagnostics with retrieval over a data set's runs.

Every finished fold and repeat under `--runs_dir` is one point: its diagnostics against its MAP@R on unseen classes.
Diagnostics are of the test embeddings and, with `--training`, of the training embeddings. Folds of one method are
correlated, so the bootstrap resamples whole methods.

Regenerates: Milbich's dissertation, figure 2.4 (R@1 against pi_intra, pi_inter, pi_ratio and rho), on your own runs.
Command: python -m experiments.diagnostics_study --runs_dir=runs --dataset=glyphs [--training] [--clustering]
Expected: correlation of R@1 with rho of the training embeddings -.63 or lower on each of CUB, Cars196 and SOP; for
    the others it varies between data sets (no other number in the figure is legible).
Cost: a second per run; `--training` embeds the training images, once (glyphs: some seconds per run on a CPU).
"""

from __future__ import annotations

import functools
import pathlib
import sys

from absl import flags

from common.errors import InvalidInput, check_choice
from common.files import write_text
from experiments import reports
from experiments.protocols.diagnostics import correlation_table, points_of, runs_table, training_diagnostics
from experiments.settings import build
from experiments.settings import flags as experiment_flags
from experiments.settings.run_settings import CONVENTIONAL_PROTOCOLS


def main() -> None:
    """Read the runs, write the tables beside them, print the correlations."""
    values = flags.FLAGS
    check_choice("--dataset", values.dataset, build.DATASETS)
    check_choice("--protocol", values.protocol, ("fair", *CONVENTIONAL_PROTOCOLS))
    if not values.training:
        experiment_flags.refuse_flags(values, "data_dir", "cache_dir", "seed", because="only --training reads the data")
    found_methods = reports.collect(values.runs_dir, values.protocol, values.dataset)
    for problem in (problem for method in found_methods for problem in method.problems):
        print(f"warning: {problem}", file=sys.stderr)
    methods = [method for method in found_methods if method.finished]
    if len(methods) < 3:
        raise InvalidInput(
            f"Invalid --runs_dir: received {values.runs_dir} with {len(methods)} method(s) that have finished runs in "
            f"{values.protocol}/{values.dataset}, expected three or more. "
            f"Train them: python -m experiments.fair_eval --dataset={values.dataset} --loss=pnca,c2,ms --budget=demo"
        )
    training = None
    if values.training:
        dataset = build.load_dataset(values.dataset, values.data_dir, values.cache_dir, values.seed)
        options = {"dataset": dataset, "cache_dir": values.cache_dir, "clustering": values.clustering}
        training = functools.partial(training_diagnostics, **options)
    points = points_of(methods, training, values.clustering)
    found = correlation_table(points, values.dataset)
    folder = pathlib.Path(values.runs_dir) / values.protocol / values.dataset / "reports"
    write_text(folder / "diagnostics.md", found.as_markdown())
    write_text(folder / "diagnostics.csv", runs_table(points).as_csv())
    print(found.as_text())
    print(f"Every run: {folder / 'diagnostics.csv'}")


if __name__ == "__main__":
    experiment_flags.define_plugin_flag()
    flags.DEFINE_string("dataset", "glyphs", "Data set whose runs are looked at.")
    flags.DEFINE_string("protocol", "fair", "Protocol whose runs are looked at: a folder of --runs_dir.")
    flags.DEFINE_boolean("training", False, "Also diagnostics of the training embeddings, and the generalisation gap.")
    flags.DEFINE_boolean("clustering", False, "Also NMI of k-means.")
    flags.DEFINE_integer("seed", 0, "Seed that the data were loaded with.", lower_bound=0)
    experiment_flags.define("data_dir", "cache_dir", "runs_dir")
    experiment_flags.run_command(main)
