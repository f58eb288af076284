"""Conversion of finished runs to a study's rows, with their command line."""

from __future__ import annotations

import os
import pathlib
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from common.errors import InvalidInput
from experiments import reports
from experiments.protocols.fair_report import concatenated_embeddings
from experiments.rows import rows
from experiments.rows.extras import Extras, ExtrasReader, no_extras
from experiments.rows.store import StudyRows, locked
from experiments.runs.finished_run import check_of_one_run
from experiments.runs.unit import evaluate_embeddings, per_query_scores
from experiments.settings.flags import PLACE_FLAGS
from experiments.settings.places import Places
from experiments.settings.tracker_flags import TRACKER_FLAGS

_UNITS = "fold*-repeat*"
_LEVELS = 4  # runs/<protocol>/<data set>/<method>/<unit>
_WITHOUT_EFFECT = (
    *(*PLACE_FLAGS, "checkpoint_seconds", "decoded_images_mb"),
    *("report_only", "details", "record", "replace", "max_cells", *TRACKER_FLAGS),
)
_BOOLEAN = ("report_only", "details", "replace")  # of them


class Recorded(Protocol):
    """Finished runs of a study, such as `experiments.plans.study.RecordedMethod`."""

    @property
    def units(self) -> Sequence[reports.UnitRun]:
        """Finished runs."""

    @property
    def label(self) -> str | None:
        """The name of their configuration in tables."""

    @property
    def extras(self) -> Mapping[str, object]:
        """Additional values of their rows."""

    @property
    def measured(self) -> Callable[[reports.UnitRun], Extras]:
        """Function from a run to additional values of its row."""


class Naming(NamedTuple):
    """A configuration's name in tables (None: the default) and its rows' extras.

    Attributes:
        label: the name.
        extras: the same in all of its rows.
        measured: from each run, for its row and for pictures.
    """

    label: str | None = None
    extras: Mapping[str, object] = {}
    measured: Callable[[reports.UnitRun], Extras] = no_extras


def record_finished(units: Iterable[reports.UnitRun], places: Places) -> None:
    """Append a command's finished runs to the study of `--record`, if given.

    Args:
        units: runs that the command is about.
        places: the study, and the folders of data.
    """
    if places.study:
        _record_named({unit.path for unit in units}, {}, places)


def record_methods(methods: Iterable[Recorded], places: Places) -> None:
    """Record runs whose methods have their own names or extras.

    Args:
        methods: those of the command.
        places: the study, and the folders of data.
    """
    if not places.study:
        return
    methods = list(methods)
    naming = {unit.path.parent: Naming(of.label, of.extras, of.measured) for of in methods for unit in of.units}
    _record_named({unit.path for of in methods for unit in of.units}, naming, places)


def record_computed(computed: Mapping[pathlib.Path, Extras], places: Places) -> None:
    """Record finished runs with further values that a command has computed.

    Args:
        computed: by the folder of the run.
        places: the study, and the folders of data.
    """
    if places.study:
        _record_named(set(computed), {}, places, computed)


def record_runs(methods: Sequence[reports.MethodRuns], naming: Mapping[pathlib.Path, Naming], places: Places) -> None:
    """Record runs outside protocols, each given as its own method.

    Args:
        methods: with finished runs, in the order of the command.
        naming: of each, by its folder.
        places: the study.
    """
    if places.study:
        options: dict[str, Any] = {"command": command_line(), "naming": naming, "replace": places.replace}
        print("\n".join(record(methods, places.study, ExtrasReader(), **options)), file=sys.stderr)


def _record_named(
    paths: set[pathlib.Path],
    naming: Mapping[pathlib.Path, Naming],
    places: Places,
    computed: Mapping[pathlib.Path, Extras] = {},
) -> None:
    methods = [reports.collect_method(folder) for folder in sorted({path.parent for path in paths})]
    extras = ExtrasReader(places.data_dir, places.cache_dir, computed)
    options: dict[str, Any] = {"command": command_line(), "naming": naming, "units": paths, "replace": places.replace}
    print("\n".join(record(methods, places.study or "", extras, **options)), file=sys.stderr)


def record(
    methods: Iterable[reports.MethodRuns],
    folder: str | os.PathLike,
    extras: ExtrasReader,
    *,
    command: str | None = None,
    naming: Mapping[pathlib.Path, Naming] = {},
    units: set[pathlib.Path] | None = None,
    replace: bool = False,
) -> list[str]:
    """Merge finished runs, and complete concatenations, into a study's rows.

    Args:
        methods: the runs on disk of each configuration.
        folder: of the study, `results/<study>`.
        extras: reads what tables and pictures need beside metrics.
        command: what trained the runs; None: not known.
        naming: of configurations, by their folder.
        units: folders of runs to record; None: all.
        replace: whether new results take the place of others with the same key.

    Returns:
        A line for each omission, with its reason, and for each recorded item.

    Raises:
        InvalidInput: see `StudyRows`; or nothing is finished.
    """
    said: list[str] = []
    found: list[rows.ScoredRow] = []
    for runs in methods:
        said += [f"warning: {problem}" for problem in runs.problems]
        chosen = [unit for unit in runs.units if units is None or unit.path in units]
        unfinished = [unit for unit in chosen if not unit.is_finished and unit.problem is None]
        said += [f"warning: {unit.path} is left out: it has not finished." for unit in unfinished]
        found += _scored_rows(
            runs, [unit for unit in chosen if unit.is_finished], extras, command, naming.get(runs.path, Naming())
        )
    if not found:
        raise InvalidInput("\n".join([*said, "There is no finished run to record. Finish one first."]))
    with locked(folder):
        study = StudyRows(folder)
        changed = study.merge(found, replace=replace)
        study.save()
    return [
        *said,
        f"{study.folder}: {len(found)} rows, of which {changed} are new or changed; {len(study.rows)} in all.",
    ]


def methods_under(folder: str | os.PathLike) -> list[reports.MethodRuns]:
    """List every configuration with runs in a folder.

    Args:
        folder: of a method, a data set, a protocol, or all runs.

    Raises:
        InvalidInput: there is none.
    """
    folder = pathlib.Path(folder)
    patterns = ["/".join([*["*"] * depth, _UNITS]) for depth in range(_LEVELS)]
    paths = sorted({path.parent for pattern in patterns for path in folder.glob(pattern) if path.is_dir()})
    found = [runs for path in paths if (runs := reports.collect_method(path)).units]
    if not found:
        raise InvalidInput(
            f"{folder} holds no runs: expected a folder such as runs/fair/glyphs or "
            "runs/fair/glyphs/pnca+gap-0123456789, with folders fold0-repeat0, ... below."
        )
    return found


def command_line(arguments: Sequence[str] | None = None) -> str:
    """Return the portable command: no location flags, files by name.

    Args:
        arguments: the module and its flags; None: this process'.
    """
    if arguments is None:
        module = getattr(sys.modules["__main__"].__spec__, "name", None) or pathlib.Path(sys.argv[0]).stem
        arguments = [module, *sys.argv[1:]]
    kept = [arguments[0]]
    is_value = False  # of a flag that was given without `=`
    for argument in arguments[1:]:
        name, equals, value = argument.partition("=")
        if argument.startswith("-"):
            is_value = False
            if name.lstrip("-") in _WITHOUT_EFFECT or name.lstrip("-").removeprefix("no") in _WITHOUT_EFFECT:
                is_value = not equals and name.lstrip("-").removeprefix("no") not in _BOOLEAN
                continue
            kept.append(f"{name}={_without_folder(value)}" if equals else argument)
        elif not is_value:
            kept.append(_without_folder(argument))
    return " ".join(["python -m", *map(shlex.quote, kept)])


def _without_folder(value: str) -> str:
    return pathlib.PurePath(value).name if "/" in value else value


def _scored_rows(
    runs: reports.MethodRuns,
    units: Sequence[reports.UnitRun],
    extras: ExtrasReader,
    command: str | None,
    naming: Naming,
) -> Iterator[rows.ScoredRow]:
    trained, embeddings = {}, {}
    for unit in units:
        row = rows.training_row(unit, runs, label=naming.label, command=command)
        more, own = extras.read(unit), naming.measured(unit)
        row["extras"] |= {**more.values, **own.values, **naming.extras}
        place = unit.fold, unit.repeat
        trained[place], embeddings[place] = row, unit.test_embeddings()
        evaluated = _checked(unit, embeddings[place], runs.dataset)
        figures = evaluated[0].as_dict()
        further = [name for name in figures if name.startswith("R@") and name not in row["test"]]
        row["test"] |= {name: figures[name] for name in (*rows.METRICS, *further)}
        yield _scored(row, evaluated, {**more.arrays, **own.arrays})
    for repeats in _collections(runs, embeddings):
        members = [embeddings[place] for place in enumerate(repeats)]
        result, labels = _evaluated(concatenated_embeddings(members))
        metrics = {name: result.as_dict()[name] for name in rows.METRICS}
        yield _scored(rows.collection_row(trained[0, 0], repeats, metrics), (result, labels), {})


def _scored(row: dict, evaluated: tuple, arrays: dict) -> rows.ScoredRow:
    result, labels = evaluated
    return rows.ScoredRow(row, *rows.class_sums(per_query_scores(result), labels), arrays)


def _evaluated(embeddings: dict, dataset: str = "") -> tuple:
    """Return test embeddings' retrieval result and the counted queries' classes `[queries]`."""
    result = evaluate_embeddings(embeddings, dataset)
    return result, embeddings["query_labels"][result.query_rows]


def _checked(unit: reports.UnitRun, embeddings: dict, dataset: str) -> tuple:
    result, labels = _evaluated(embeddings, dataset)
    check_of_one_run(unit.path, "test embeddings", result.as_dict(), unit.test_metrics())
    return result, labels


def _collections(runs: reports.MethodRuns, by_place: dict) -> list[tuple[int, ...]]:
    """List choices of one repeat per fold, from repeats all folds have."""
    num_folds = runs.config.get("num_folds", 0)
    repeats = 0
    while num_folds > 1 and all((fold, repeats) in by_place for fold in range(num_folds)):
        repeats += 1
    return reports.collections(num_folds, repeats) if runs.protocol == "fair" and repeats else []
