"""`experiments.figure` and `experiments.table`: list, run and draw the cells of a study."""

from __future__ import annotations

import contextlib
import functools
import pathlib
import re
import sys
from collections.abc import Collection, Mapping, Sequence

from absl import flags

from common.backbones import conversion_command
from common.backbones.initial_weights import file_to_make
from common.data import Dataset
from common.errors import InvalidInput, check_all, check_choice
from experiments.launch.launch_flags import READ_BY, Launcher, define_launch_flags, launcher_from_flags
from experiments.launch.unit_task import Failure, check_no_failures
from experiments.parts.datasets import traits_of
from experiments.plans.launched_cells import DATA_DIR, launch_missing, unit_command
from experiments.plans.study import Cell, Studies, Study, StudyOptions, finished_rows
from experiments.plans.study_runs import NothingFinished, StudyRuns
from experiments.protocols.recording import record_finished
from experiments.protocols.report_files import print_report
from experiments.recipes.words import (
    check_dataset_flags,
    check_distinct,
    head_without_gpu,
    overrides_from_flags,
    set_recipe,
)
from experiments.rows.rows import Row
from experiments.rows.run_folders import collect, finished
from experiments.runs.cost import duration, estimated_seconds, rate_of
from experiments.runs.start_checks import checked_with_data
from experiments.runs.trained_model import stored_configuration
from experiments.runs.unit_runs import follow_pictures
from experiments.settings import build, flags as experiment_flags, tracker_flags
from experiments.settings.config import ExperimentConfig
from experiments.settings.parts import all_settings
from experiments.settings.run_settings import BUDGETS

flags.disclaim_key_flags()  # they belong to the command that asks for them, whose --help lists them

_ABOUT_TRAINING = (
    *("dataset", "loss", "pooling", "recipe", "repeats", "fold", "monitor", "max_cells", "data_dir", "cache_dir"),
    *("record", "replace"),
    *experiment_flags.UNIT_FLAGS,
    *("launch", *READ_BY, *tracker_flags.TRACKER_FLAGS),
)


def define_study_flags(studies: Collection[str]) -> None:
    """Define `--id`, `--run`, `--max_cells`, and the flags of every experiment."""
    experiment_flags.define_experiment_flags()
    experiment_flags.define(
        *experiment_flags.PLACE_FLAGS, *experiment_flags.UNIT_FLAGS, *experiment_flags.RECORD_FLAGS, "details"
    )
    define_launch_flags()
    tracker_flags.define_tracker_flags()
    flags.DEFINE_string("id", None, f"Which one, by its number in the thesis or its name: {', '.join(studies)}.")
    flags.DEFINE_boolean(
        "run",
        False,
        "Run what is missing; without it, count the cells (--details: list them) and draw what is finished.",
    )
    flags.DEFINE_integer("max_cells", None, "With --run, train at most so many cells.", lower_bound=1)
    flags.DEFINE_integer(
        "repeats",
        1,
        "Runs of each fold, with different seeds; with --budget=full the default is the thesis' number.",
        lower_bound=1,
    )
    flags.DEFINE_integer("fold", None, "Block of classes that validates, for studies of one split.", lower_bound=0)
    flags.DEFINE_list(
        "monitor", None, "What stops the runs of tables 3.2 and 5.2: test_set, or test_set,held_out (default)."
    )
    flags.DEFINE_list(
        "study",
        None,
        "For --id=claims: folders of recorded studies (default: all planned ones below results).",
    )


def run_study(
    values: flags.FlagValues,
    kind: str,
    studies: Studies,
    defaults: Mapping[str, Mapping[str, object]],
    full_repeats: Mapping[str, int],
) -> None:
    """List, run, draw or record a study, as the flags ask.

    Defaults of flags and of `--repeats` at the full budget are by number in the thesis.
    """
    study_id = check_choice("--id", values.id, studies)
    experiment_flags.refuse_flags(values, "study", because="only --id=claims reads recorded studies")
    options = options_of_study(values, defaults.get(study_id, {}), full_repeats.get(study_id))
    if values.max_cells and not values.run:
        raise InvalidInput("--max_cells would have no effect without --run.")
    study = studies[study_id](options)
    _refuse_unused(values, study, options)
    trains = values.run and study.num_cells > 0, "nothing is trained without --run. Add that"
    checks = (
        lambda: launcher_from_flags(values, values.runs_dir, *trains),
        lambda: tracker_flags.tracker_from_flags(values, options.dataset, *trains),
    )
    configs = [cell.config for cell in study.cells(NothingFinished())] if values.run else ()
    launcher, tracker, dataset = checked_with_data(checks, configs, lambda: _dataset(values, options, study))
    runs: StudyRuns | NothingFinished = NothingFinished()
    if dataset is not None:
        seconds = values.checkpoint_seconds
        places_of_runs = experiment_flags.places_from(values)
        runs = StudyRuns(dataset, places_of_runs, study.variants, checkpoint_seconds=seconds, tracker=tracker)
    study = study.prepared(runs, train=values.run)
    failures: list[Failure] = []
    if values.run and study.num_cells and isinstance(runs, StudyRuns):
        failures = _run_missing(values, study, runs, launcher)
    known = study.cells(runs)
    if study.num_cells and (not values.run or len(finished_rows(known, runs)) < study.num_cells):
        places = {name: values[name].value for name in (*experiment_flags.PLACE_FLAGS, "plugin")}
        places |= tracker_flags.given_tracker_flags(values)
        print(listing(study, runs, places, details=values.details))
    if finished_rows(known, runs) or not study.num_cells:
        folder = pathlib.Path(values.runs_dir) / f"{kind}s" / study_id
        if study.needs_data:
            folder = folder / f"{options.dataset}-{options.budget}-{options.digest()}"
        name = f"{kind}_{study_id.replace('.', '_')}"
        # Drawing and `--record` share what is measured.
        study.recorded = functools.cache(study.recorded)  # type: ignore[method-assign, assignment]
        print_report(study.render(runs, folder, name), folder, values.details, f"{name}*.md")
        print(f"Folder (--details prints its tables): {folder}")
        follow_pictures(tracker, folder, f"{study.title}, {options.dataset}, {options.budget}")
    if values.record:
        record_finished(study.recorded(runs).rows, experiment_flags.places_from(values))
    check_no_failures(failures)


def refuse_all_but(values: flags.FlagValues, kept: Collection[str], because: str) -> None:
    """Refuse flags that a study without a list of cells does not read."""
    settings = (each.name for each in all_settings() if each.name in values)
    others = dict.fromkeys(("run", "details", "study", *_ABOUT_TRAINING, *settings))
    experiment_flags.refuse_flags(values, *(name for name in others if name not in kept), because=because)


def options_of_study(
    values: flags.FlagValues, defaults: Mapping[str, object], full_repeats: int | None
) -> StudyOptions:
    """Return `options_from_flags` with a study's own defaults, and its repeats at the full budget."""
    for name, value in defaults.items():
        values.set_default(name, value)
    if values.budget == "full" and full_repeats is not None:
        values.set_default("repeats", full_repeats)
    return options_from_flags(values)


def options_from_flags(values: flags.FlagValues) -> StudyOptions:
    """Return the options that the flags give, after a check of all names."""
    losses = tuple(values.loss) if values["loss"].present else ()
    check_all(
        [
            lambda: experiment_flags.refuse_flags(values, "method"),
            lambda: check_dataset_flags(values),
            lambda: check_choice("--budget", values.budget, BUDGETS),
            lambda: check_distinct("--loss", losses),
            *(functools.partial(build.check_loss_name, loss) for loss in losses),
            *(functools.partial(build.check_pooling_name, pooling) for pooling in values.pooling),
        ]
    )
    if len(values.pooling) != 1:
        raise InvalidInput(f"Invalid --pooling: received {len(values.pooling)} names, expected one.")
    set_recipe(values)
    overrides = overrides_from_flags(values)
    return StudyOptions(
        dataset=values.dataset,
        budget=values.budget,
        recipe=values.recipe,
        pooling=values.pooling[0],
        losses=losses,
        repeats=values.repeats,
        fold=values.fold,
        monitors=tuple(values.monitor or ()),
        starts=tuple(values["starts"].value or ()) if "starts" in values else (),
        overrides=overrides | head_without_gpu(values, overrides),
    )


def listing(
    study: Study, runs: StudyRuns | NothingFinished, places: Mapping[str, object], *, details: bool = False
) -> str:
    """Count a study's cells by method; the last line sums up.

    With `details`, list each cell: done with figures, or missing with cost and command.
    """
    known = study.cells(runs)
    done = finished_rows(known, runs)
    timed = _timed_runs(known, runs, places.get("runs_dir"))
    costs = {cell: estimated_seconds(cell.config, rate_of(cell.config, timed)) for cell in known}
    missing = [cell for cell in known if runs.row(cell) is None]
    lines = [study.title, *(f"warning: {problem}" for problem in runs.problems)]
    summary = f"{study.num_cells} cells: {len(done)} done, {study.num_cells - len(done)} missing"
    if missing:
        average = sum(costs[cell] for cell in missing) / len(missing)
        total = average * (study.num_cells - len(done))
        summary += f", about {duration(total)} on {rate_of(missing[0].config, timed).hardware}"
    lines += [study.protocol] if study.protocol else []
    lines += _what_commands_need(missing, places)
    lines += [] if details else _counts(known, missing)
    for cell in known if details else ():
        row = runs.row(cell)
        if row is None:
            lines += [
                f"missing  {cell.label} (about {duration(costs[cell])})",
                f"         {unit_command(cell, places)}",
            ]
        else:
            lines.append(f"done     {cell.label}: {_figures(row)}")
    if len(known) < study.num_cells:
        lines.append(f"unknown  {study.num_cells - len(known)} more, which follow from the results of these")
    fix = "--run trains what is missing" + ("." if details else ", --details lists its commands.")
    return "\n".join([*lines, f"{summary}. {fix}" if len(done) < study.num_cells else f"{summary}."])


def _counts(cells: Sequence[Cell], missing: Sequence[Cell]) -> list[str]:
    """Return a line for each label without fold and repeat."""
    counts: dict[str, list[int]] = {}
    for cell in cells:
        of_label = counts.setdefault(re.split(", (?:fold|repeat) ", cell.label)[0], [0, 0])
        of_label[0] += 1
        of_label[1] += cell in missing
    width = max(map(len, counts), default=0)
    return [f"  {label:{width}}  {count - lacks} done, {lacks} missing" for label, (count, lacks) in counts.items()]


def _timed_runs(
    cells: Sequence[Cell], runs: StudyRuns | NothingFinished, runs_dir: object
) -> list[tuple[ExperimentConfig, Row]]:
    """Return the finished cells; without any, the finished runs of their data set."""
    timed = [(cell.config, row) for cell in cells if (row := runs.row(cell)) is not None]
    if timed or not cells or runs_dir is None:
        return timed
    for rows in collect(runs_dir, dataset=cells[0].config.dataset):
        for row in finished(rows).values():
            with contextlib.suppress(InvalidInput):  # a run of another version
                timed.append((stored_configuration(row.config, row.folder), row))
    return timed


def _what_commands_need(missing: Sequence[Cell], places: Mapping[str, object]) -> list[str]:
    """Note files that the missing cells' commands need and that may not exist yet."""
    notes = []
    began_with = dict.fromkeys((cell.config.backbone, cell.config.weights) for cell in missing)
    for backbone, weights in began_with:
        if made := file_to_make(backbone, weights):
            notes.append(
                f"note: the commands begin with the published ImageNet weights in {made}, which this one makes: "
                f"{conversion_command(backbone)}. Give --weights={made} here, too: then this command counts what they "
                "train, and --run can train it."
            )
    datasets = dict.fromkeys(cell.config.dataset for cell in missing)
    for dataset in datasets if places.get("data_dir") is None else ():
        if traits_of(dataset).needs_files and not traits_of(dataset).custom:
            notes.append(
                f"note: the commands read {dataset} from --data_dir={DATA_DIR}; this one puts it there: python -m "
                f"experiments.prepare_data --dataset={dataset} --data_dir={DATA_DIR}"
            )
    return notes


def _figures(row: Row) -> str:
    ((monitor, value),) = row["validation"].items()
    return (
        f"validation {monitor} {100 * value:.2f} at step {row['best_step']:,} of {row['steps']:,}, "
        f"test MAP@R {100 * row['test']['MAP@R']:.2f}, {duration(row['train_seconds'])}"
    )


def _dataset(values: flags.FlagValues, options: StudyOptions, study: Study) -> Dataset | None:
    """Load the study's data; without `--data_dir`, its cells can still be listed.

    Embedded data are made only if a run of them may have finished.
    """
    if not study.needs_data:
        return None
    is_embedded = not traits_of(options.dataset).needs_files
    if is_embedded and not values.run and not any(pathlib.Path(values.runs_dir).glob(f"*/{options.dataset}")):
        return None
    drawn = {"seed": 0} | {name: options.overrides[name] for name in build.DRAWN_BY if name in options.overrides}
    load = functools.partial(build.load_dataset, options.dataset, values.data_dir, values.cache_dir, **drawn)
    try:
        return load()
    except InvalidInput as error:
        if values.run or values.data_dir:
            raise
        print(f"note: no data set, so every cell counts as missing. {error}", file=sys.stderr)
        return None


def _run_missing(values: flags.FlagValues, study: Study, runs: StudyRuns, launcher: Launcher | None) -> list[Failure]:
    """Train missing cells, by a launcher or singly, asking searches for more."""
    num_trained, max_cells = 0, values.max_cells
    runs.check(study.cells(NothingFinished()))
    if launcher is not None:
        return launch_missing(study, runs, launcher, max_cells, experiment_flags.unit_values(values))
    while max_cells is None or num_trained < max_cells:
        known = study.cells(runs)
        missing = next((cell for cell in known if runs.row(cell) is None), None)
        if missing is None:
            break
        num_done = len(finished_rows(known, runs))
        print(f"[{num_done + 1}/{study.num_cells}] {missing.label}", file=sys.stderr)
        runs.run(missing)
        if runs.row(missing) is None:
            raise InvalidInput("\n".join(runs.problems) or f"{missing.label} left no result. Run the command again.")
        num_trained += 1
    return []


def _refuse_unused(values: flags.FlagValues, study: Study, options: StudyOptions) -> None:
    """Refuse a flag that no cell of the study uses."""
    if not study.needs_data:
        experiment_flags.refuse_flags(values, *_ABOUT_TRAINING, because="nothing is trained for this one")
    cells: Sequence[Cell] = study.cells(NothingFinished())
    if options.fold is not None and any(cell.fold != options.fold for cell in cells):
        raise InvalidInput("--fold would have no effect: this study chooses its folds. Remove it.")
    if options.monitors and all(cell.config.protocol is None for cell in cells):
        raise InvalidInput("--monitor would have no effect: validation stops the runs of this study. Remove it.")
    for name, value in options.overrides.items():
        if not any(getattr(cell.config, name) == value for cell in cells):
            raise InvalidInput(f"--{name} would have no effect on any cell of this study. Remove it.")
