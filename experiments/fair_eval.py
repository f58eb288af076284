"""Fair evaluation: four class-disjoint folds, MAP@R, averaged and concatenated models on unseen classes.

Regenerates: rows of thesis tables 3.1 and 5.1.
Command: python -m experiments.fair_eval --dataset=sop --loss=pnca --pooling=gsp
Expected: thesis table 5.1, PNCA + GSP on SOP: MAP@R 43.95 (128-D), 47.74 (512-D).
Cost: `--dataset=glyphs --budget=demo` about a minute a fold on 2 CPU cores; SOP about a GPU day a fold (estimated).
"""

from __future__ import annotations

import itertools

from absl import flags

from experiments.quiet_start import quiet_start

with quiet_start():
    from common.ops.checks import InvalidInput, check_choice
    from experiments import build
    from experiments import flags as experiment_flags
    from experiments.config import ExperimentConfig
    from experiments.fair_protocol import FairProtocol
    from experiments.recipes import METHODS, resolve


def main() -> None:
    """Runs what is missing of every method that the flags name, then reports."""
    values = flags.FLAGS
    configs = configurations()
    dataset = build.load_dataset(values.dataset, values.data_dir, values.cache_dir, configs[0].seed)
    protocol = FairProtocol(dataset, configs, values.runs_dir, cache_dir=values.cache_dir, repeats=values.repeats)
    if not values.report_only:
        protocol.run(fold=values.fold, repeat=values.repeat, checkpoint_seconds=values.checkpoint_seconds)
    print(protocol.report())


def configurations() -> list[ExperimentConfig]:
    """One configuration for each method that the flags name, after a check of all names.

    Methods that are compared in one command follow the settings of one chapter: 3 if CCP is among them, else 5.
    """
    values, overrides = flags.FLAGS, experiment_flags.overrides_from_flags()
    check_choice("--dataset", values.dataset, build.DATASETS)
    named = _methods()
    for loss, method, pooling in named:
        build.check_loss_name(loss)
        check_choice("--pooling", pooling, build.POOLINGS)
        check_choice("--method", method, METHODS)
    overrides.setdefault("chapter", 3 if any(method == "ccp" for _, method, _ in named) else 5)
    configs = [
        resolve(values.dataset, loss, pooling, values.recipe, values.budget, overrides, method)
        for loss, method, pooling in named
    ]
    if not configs:
        raise InvalidInput("Invalid --loss, --method or --pooling: received an empty list, expected at least one name.")
    return configs


def _methods() -> list[tuple[str, str, str]]:
    """(loss, method, pooling) of `--methods`, or all combinations of the other three flags."""
    values = flags.FLAGS
    if not values.methods:
        return list(itertools.product(values.loss, values.method, values.pooling))
    clashing = [f"--{name}" for name in ("loss", "method", "pooling") if flags.FLAGS[name].present]
    if clashing:
        raise InvalidInput(f"--methods names all there is to name: remove {', '.join(clashing)}.")
    return [build.parse_method(name) for name in values.methods]


if __name__ == "__main__":
    experiment_flags.define_experiment_flags(build.DATASETS, build.LOSSES, build.POOLINGS)
    experiment_flags.define_run_flags()
    flags.DEFINE_list(
        "methods",
        None,
        "Instead of --loss, --method and --pooling: methods by their names in reports, such as c2+gap,c2+xbm+gap,"
        "c2+ccp+gsp; each is compared with the first.",
    )
    experiment_flags.run_command(main)
