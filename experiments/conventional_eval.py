"""Conventional evaluation: R@1 on the test set decides, best of three; beside it the unbiased figure.

Every method is trained twice over: once as the literature does, on all training classes, with a learning rate, an end
of training and weights that R@1 *on the test set* chooses; and once with a tenth of the training classes kept back for
these choices, so that the test set is looked at once. The difference is named: the optimism of the protocol.

Regenerates: rows of thesis tables 3.2a/b (`--method=ccp`) and 5.2a/b.
Command: python -m experiments.conventional_eval --dataset=sop --data_dir=data --loss=c1+xbm --pooling=gap+gmp,gmp+gsp
    --weights=bn_inception.npz (`experiments.convert_weights` makes that file; `--backbone=resnet50 --embedding_dim=128`
    in its place for table 5.2b, `--backbone=resnet50` for table 3.2b)
Expected: thesis table 5.2a, C1+XBM on SOP: R@1 79.29 (MAP@R 52.59), with GSP 79.59; table 3.2a, C2+CCP on SOP: 80.01.
Cost: `--dataset=glyphs --budget=smoke` some minutes on 2 CPU cores; `--budget=full` on SOP three trainings of
    16 hours a method that stop on the test set and three of 10 hours beside them on an RTX 2080 Ti (estimated).
"""

from __future__ import annotations

from collections.abc import Callable

from absl import flags

from experiments.process.quiet_start import quiet_start

with quiet_start():
    from common.ops.checks import InvalidInput, check_choice
    from experiments.evidence.recording import record_finished
    from experiments.protocols.conventional import DEFAULT_REPEATS, MONITORS, ConventionalProtocol
    from experiments.protocols.conventional_report import write_report
    from experiments.protocols.fair import check_unit_flags
    from experiments.settings import build
    from experiments.settings import flags as experiment_flags
    from experiments.units.start_checks import check_configurations

DEFAULT_POOLING = "gap+gmp"


def evaluate(write: Callable = write_report) -> None:
    """Runs what is missing of every method that the flags name, then reports.

    Args:
        write: the report, see `ConventionalProtocol.report`.
    """
    values = flags.FLAGS
    monitors = [check_choice("--monitor", monitor, MONITORS) for monitor in values.monitor]
    experiment_flags.check_distinct("--monitor", monitors)
    if not monitors:
        raise InvalidInput(
            f"Invalid --monitor: received an empty list, expected one of {', '.join(MONITORS)}, or both."
        )
    configs = experiment_flags.configurations_from_flags("conventional", ignored=("held_out_fraction",))
    held_out_configs = experiment_flags.configurations_from_flags("held_out")
    check_unit_flags(1, values.repeats, None, values.repeat)
    if not values.report_only:
        check_configurations([*configs, *held_out_configs], values.data_dir)
    dataset = build.load_dataset(values.dataset, values.data_dir, values.cache_dir, configs[0].seed)
    protocol = ConventionalProtocol(
        dataset, configs, held_out_configs, values.runs_dir, cache_dir=values.cache_dir, repeats=values.repeats
    )
    if not values.report_only:
        protocol.run(repeat=values.repeat, monitors=monitors, checkpoint_seconds=values.checkpoint_seconds)
    print(protocol.report(write))
    found = [runs for method in protocol.methods() for runs in (method.runs, method.held_out_runs) if runs]
    record_finished(unit for runs in found for unit in runs.finished.values())


def define_flags(repeats: int) -> None:
    """Defines all flags; trains each unit `repeats` times by default."""
    experiment_flags.define_experiment_flags(build.DATASETS, build.LOSSES, build.POOLINGS)
    experiment_flags.define_run_flags(units=("repeat",))
    experiment_flags.define_methods_flag()
    flags.DEFINE_list(
        "monitor", list(MONITORS), "What stops training: test_set, held_out or both. Runs these units only."
    )
    flags.FLAGS.set_default("repeats", repeats)


if __name__ == "__main__":
    define_flags(DEFAULT_REPEATS)
    flags.FLAGS.set_default("pooling", DEFAULT_POOLING)
    experiment_flags.run_command(evaluate)
