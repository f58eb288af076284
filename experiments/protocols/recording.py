"""Conversion of finished runs to a study's rows, with their command line."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from common.errors import InvalidInput
from experiments import reports
from experiments.protocols.extras import ExtrasReader
from experiments.rows.rows import Extras, Row, check_of_one_run, collection_rows, row_of
from experiments.rows.store import RecordedMethod, StudyRows, locked, named_row
from experiments.settings.flags import PLACE_FLAGS
from experiments.settings.places import Places
from experiments.settings.tracker_flags import TRACKER_FLAGS

_UNITS = "fold*-repeat*"
_LEVELS = 4  # runs/<protocol>/<data set>/<method>/<unit>
_WITHOUT_EFFECT = (
    *(*PLACE_FLAGS, "checkpoint_seconds", "decoded_images_mb", "allow_cpu"),
    *("report_only", "details", "record", "replace", "max_cells", *TRACKER_FLAGS),
)
_BOOLEAN = ("allow_cpu", "report_only", "details", "replace")  # of them


def record_finished(units: Iterable[reports.UnitRun], places: Places) -> None:
    """Append a command's finished runs to the study of `--record`, if given; see `record_methods`."""
    record_methods([RecordedMethod(tuple(units))], places)


def record_methods(
    methods: Iterable[RecordedMethod], places: Places, collected: Sequence[reports.MethodRuns] | None = None
) -> None:
    """Record runs whose methods have their own names or extras, if `--record` is given.

    Runs outside protocols are `collected`, each as its own method in the order of `methods`; others are in the methods'
    folders.
    """
    if not places.study:
        return
    methods = list(methods)
    if collected is None:
        naming = {unit.path.parent: of for of in methods for unit in of.units}
        collected = [reports.collect_method(folder) for folder in sorted(naming)]
    else:
        naming = {runs.path: of for runs, of in zip(collected, methods, strict=True)}
    units, extras = {unit.path for of in methods for unit in of.units}, ExtrasReader(places.data_dir, places.cache_dir)
    chosen: dict[str, Any] = {"naming": naming, "units": units, "replace": places.replace}
    print("\n".join(record(collected, places.study, extras, command=command_line(), **chosen)), file=sys.stderr)


def record(
    methods: Iterable[reports.MethodRuns],
    folder: str | os.PathLike,
    extras: ExtrasReader,
    *,
    command: str | None = None,
    naming: Mapping[pathlib.Path, RecordedMethod] = {},
    units: set[pathlib.Path] | None = None,
    replace: bool = False,
) -> list[str]:
    """Merge finished runs, and complete concatenations, into a study's rows.

    Return a line for each omission, with its reason, and for each recorded item. Refuse unfinished runs if there are no
    others, and what `StudyRows` refuses.
    """
    said: list[str] = []
    found: list[Row] = []
    for runs in methods:
        said += [f"warning: {problem}" for problem in runs.problems]
        chosen = [unit for unit in runs.units if units is None or unit.path in units]
        unfinished = [unit for unit in chosen if not unit.is_finished and unit.problem is None]
        said += [f"warning: {unit.path} is left out: it has not finished." for unit in unfinished]
        finished = [unit for unit in chosen if unit.is_finished]
        found += _recorded_rows(runs, finished, extras, command, naming.get(runs.path, RecordedMethod()))
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
    """List every configuration with runs in a folder."""
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
    """Return a module's command, by default this one, without folders."""
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


def _recorded_rows(
    runs: reports.MethodRuns,
    units: Sequence[reports.UnitRun],
    extras: ExtrasReader,
    command: str | None,
    method: RecordedMethod,
) -> Iterator[Row]:
    """Yield copies of runs' rows, and of their concatenated models', for a study's folder."""
    place = {"protocol": runs.protocol, "dataset": runs.dataset, "method": runs.method}
    place["config_hash"] = runs.config_hash
    for unit in units:
        if not isinstance(unit.config.get("data"), str):
            raise InvalidInput(
                f"{unit.path}/config.json is missing or damaged: the configuration and data of its figures are "
                "unknown. Repeat the command that made the run."
            )
        scored = row_of(unit)
        check_of_one_run(unit.path, "test embeddings", scored["test"], unit.test_metrics())
        more, own = extras.read(unit), method.measured(unit)
        measured = Extras({**more.values, **own.values}, {**more.arrays, **own.arrays})
        yield _copy(named_row(scored, method, measured), {**place, "command": command})
    folds = runs.config.get("num_folds", 0)
    if runs.protocol == "fair" and folds > 1:
        for scored in collection_rows(units, folds):
            yield _copy(named_row(scored, method), place)


def _copy(scored: Row, changes: Mapping[str, object]) -> Row:
    """Return a row of a study's folder, which keeps float32 sums."""
    sums = {name: values.astype(np.float32) for name, values in scored.sums.items()}
    return dataclasses.replace(scored, json={**scored, **changes}, sums=sums)
