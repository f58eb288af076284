"""Posterior refinement of trained runs: other metrics of trunk features.

Training gives a trunk x and a neck W, hence the similarity x^T M x' with M = W^T W. The command replaces M by the
paper's D(r), R(r) and identity. The identity ranks more dimensions than the embedding has, so two controls have the
embedding's size: the trunk's principal axes on the training images, and random axes. Each is ranked three times:
normalised by the lengths sqrt(x^T |M'| x), like the trained unit-length embedding; with features of unit length; and
unnormalised. The paper does not state which it uses.

Regenerates: "Posterior refinement" table 1 (mean of the four folds' models) and figures 2 and 3.
Command: python -m experiments.posterior_refinement --run=runs/fair/glyphs/pnca+gap-0123456789
    [--restraint=D,R,identity] [--ratio=0,.25,.5,.75,1] [--draws=3] [--record=results/mine]; one run: .../fold0-repeat0
Expected: table 1, Cars196, ProxyNCA (BN-Inception, 128-D of 1024): MAP@R 18.85 as trained, 18.43 with the identity,
    19.58 with D(1); P@1 73.91, 80.10 and 79.82.
Cost: milliseconds to seconds per refinement, without data; seconds per ranking; one pass over the training and test
    images for the features; all of it once per run.
"""

from __future__ import annotations

import pathlib

from absl import flags

from common.diagnostics.posterior_refinement import RESTRAINTS
from common.errors import InvalidInput, check_choice, check_given, check_positive
from experiments.protocols import posterior_refinement as protocol
from experiments.protocols.recording import record_finished
from experiments.rows.run_folders import collect_method
from experiments.runs.trained_model import load_trained_model
from experiments.runs.trunk import trunk_of
from experiments.settings import flags as experiment_flags
from experiments.settings.places import Places


def main() -> None:
    """Refine and rank one run or a method's runs, then report."""
    values = flags.FLAGS
    restraints = [check_choice("--restraint", name, RESTRAINTS) for name in values.restraint]
    if not restraints:
        raise InvalidInput(f"Invalid --restraint: received an empty list, expected some of {', '.join(RESTRAINTS)}.")
    if restraints == ["identity"]:
        experiment_flags.refuse_flags(values, "ratio", because="the identity has no ratio")
    ratios = protocol.parse_ratios(values.ratio)
    draws = int(check_positive("--draws", values.draws))
    folder, first, rows = pathlib.Path(values.run), None, {}
    for path in protocol.runs_in(folder):
        trunk = trunk_of(load_trained_model(path, data_dir=values.data_dir, cache_dir=values.cache_dir))
        rows[path] = protocol.refinements(trunk, restraints, ratios, draws, values.seed)
        first = first or trunk
    merged = protocol.mean_over_runs(list(rows.values()))
    print(protocol.write_report(check_given("runs", first), merged, folder, draws, len(rows)))
    if values.record:
        runs = [row.scored() for row in collect_method(next(iter(rows)).parent) if row.folder in rows]
        places = Places(
            data_dir=values.data_dir, cache_dir=values.cache_dir, study=values.record, replace=values.replace
        )
        record_finished([protocol.kept(run, rows[run.folder], draws) for run in runs], places)


if __name__ == "__main__":
    experiment_flags.define_plugin_flag()
    flags.DEFINE_string("run", None, "A finished run's directory, or a method's: the mean of its runs.", required=True)
    flags.DEFINE_list("restraint", list(RESTRAINTS), "What is done to the metric matrix: D, R, identity.")
    flags.DEFINE_list("ratio", [f"{ratio:g}" for ratio in protocol.DEFAULT_RATIOS], "r of D and R, in [0, 1].")
    flags.DEFINE_integer("draws", 3, "Seeds of each D(r) and R(r).")
    flags.DEFINE_integer("seed", 0, "Seed of the first draw.", lower_bound=0)
    experiment_flags.define("data_dir", "cache_dir", *experiment_flags.RECORD_FLAGS)
    experiment_flags.run_command(main)
