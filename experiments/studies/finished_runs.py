"""Figures of finished runs, which train nothing: attention maps, and diagnostics against retrieval.

Attention maps of a trained model over test images, in total and by prototype.

Regenerates: the attention maps of thesis figures 5.5 and 5.6.
Expected: weight on the target's tile of collages (thesis figure 5.5); no figure is printed.

Rank correlations of diagnostics with retrieval over all finished runs of a data set: each fold and repeat is one point.
Diagnostics are of the test embeddings and, with `--training`, of the training embeddings. Folds of one method are
correlated, so the bootstrap resamples whole methods.

Regenerates: Milbich's dissertation, figure 2.4 (R@1 against pi_intra, pi_inter, pi_ratio and rho), on your own runs.
Expected: correlation of R@1 with rho of the training embeddings -.63 or lower on each of CUB, Cars196 and SOP; for
    the others it varies between data sets (no other number in the figure is legible).
"""

from __future__ import annotations

import functools
import pathlib
import sys

from absl import flags

from common.errors import InvalidInput, check_choice, check_given
from common.files import write_text
from experiments.plans.study_command import refuse_all_but
from experiments.protocols.attention import attention_of, attention_panels
from experiments.protocols.diagnostics import correlation_table, points_of, runs_table, training_diagnostics
from experiments.rows.run_folders import collect, problems_of
from experiments.runs.pooling_weights import has_weights
from experiments.runs.trained_model import load_trained_model
from experiments.settings import build
from experiments.settings.run_settings import CONVENTIONAL_PROTOCOLS

_NUM_IMAGES, _NUM_PROTOTYPES = 8, 6  # images of different classes; the most used prototypes


def draw_attention(values: flags.FlagValues) -> None:
    """Draw the attention of `--trained_run` into its folder, and print the path."""
    refuse_all_but(values, ("data_dir", "cache_dir", "trained_run"), because="it draws one finished run")
    run = check_given("--trained_run", values.trained_run)
    trained = load_trained_model(run, data_dir=values.data_dir, cache_dir=values.cache_dir)
    if trained.config.backbone == "token_embedding" or not has_weights(trained.model.head.pooling):
        name = f"{trained.config.pooling} on {trained.config.dataset}"
        raise InvalidInput(f"--trained_run: {name} has no attention over images.")
    attentions = attention_of(trained, _NUM_IMAGES, _NUM_PROTOTYPES)
    path = pathlib.Path(run) / "attention.png"
    attention_panels(attentions, path, title=f"{trained.config.name} on {trained.config.dataset}")
    print(f"Attention of {len(attentions)} test images: {path}")


def correlate_diagnostics(values: flags.FlagValues) -> None:
    """Read the finished runs of a data set, write the tables beside them, print the correlations."""
    of_training = ("data_dir", "cache_dir", "seed") if values.training else ()
    kept = ("dataset", "protocol", "training", "clustering", "runs_dir", *of_training)
    refuse_all_but(values, kept, because="it reads finished runs, and data only with --training")
    check_choice("--dataset", values.dataset, build.DATASETS)
    check_choice("--protocol", values.protocol, ("fair", *CONVENTIONAL_PROTOCOLS))
    collected = [row for rows in collect(values.runs_dir, values.protocol, values.dataset) for row in rows]
    for problem in problems_of(collected):
        print(f"warning: {problem}", file=sys.stderr)
    runs = [row for row in collected if row.is_finished]
    methods = {row.folder.parent for row in runs}
    if len(methods) < 3:
        raise InvalidInput(
            f"Invalid --runs_dir: received {values.runs_dir} with {len(methods)} method(s) that have finished runs in "
            f"{values.protocol}/{values.dataset}, expected three or more. "
            f"Train them: python -m experiments.fair_eval --dataset={values.dataset} --loss=pnca,c2,ms --budget=demo"
        )
    training = None
    if values.training:
        dataset = build.load_dataset(values.dataset, values.data_dir, values.cache_dir, values.seed or 0)
        options = {"dataset": dataset, "cache_dir": values.cache_dir, "clustering": values.clustering}
        training = functools.partial(training_diagnostics, **options)
    points = points_of(runs, training, values.clustering)
    found = correlation_table(points, values.dataset)
    folder = pathlib.Path(values.runs_dir) / values.protocol / values.dataset / "reports"
    write_text(folder / "diagnostics.md", found.as_markdown())
    write_text(folder / "diagnostics.csv", runs_table(points).as_csv())
    print(found.as_text())
    print(f"Every run: {folder / 'diagnostics.csv'}")
