"""Conversion of finished runs to a study's rows, with their command line."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shlex
import sys
from collections.abc import Iterable, Sequence

import numpy as np

from common.errors import InvalidInput
from experiments.protocols.extras import with_data_extras
from experiments.rows.rows import Row, check_of_one_run, collection_rows
from experiments.rows.run_folders import collect_method
from experiments.rows.store import StudyRows, locked
from experiments.runs.trained_model import DataFolder
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


def record_finished(rows: Iterable[Row], places: Places) -> None:
    """Add a command's finished runs to the study of `--record`, if given."""
    if places.study:
        data = DataFolder(places.data_dir, places.cache_dir)
        said = record(rows, places.study, data, command=command_line(), replace=places.replace)
        print("\n".join(said), file=sys.stderr)


def record(
    rows: Iterable[Row],
    folder: str | os.PathLike,
    data: DataFolder,
    *,
    command: str | None = None,
    replace: bool = False,
) -> list[str]:
    """Merge runs, and complete concatenations, into a study's rows.

    Return a line for each omission, with its reason, and for each recorded item. Refuse unfinished runs if there are no
    others, and what `StudyRows` refuses.
    """
    said: list[str] = []
    by_folder: dict[pathlib.Path, list[Row]] = {}
    for row in rows:
        if row.is_finished:
            by_folder.setdefault(row.folder.parent, []).append(row)
        elif not row.problem:
            said.append(f"warning: {row.folder} is left out: it has not finished.")
        said += [f"warning: {row.problem}"] if row.problem else []
    found = [each for of_method in by_folder.values() for each in _recorded_rows(of_method, data, command)]
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


def methods_under(folder: str | os.PathLike) -> list[list[Row]]:
    """List every configuration with runs in a folder."""
    folder = pathlib.Path(folder)
    patterns = ["/".join([*["*"] * depth, _UNITS]) for depth in range(_LEVELS)]
    paths = sorted({path.parent for pattern in patterns for path in folder.glob(pattern) if path.is_dir()})
    found = [rows for path in paths if (rows := collect_method(path))]
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


def _recorded_rows(rows: Sequence[Row], data: DataFolder, command: str | None) -> list[Row]:
    """Copy one configuration's rows, and those of its concatenated models."""
    copies = []
    for row in rows:
        if not isinstance(row["data"], str):
            raise InvalidInput(
                f"{row.folder}/config.json is missing or damaged: the configuration and data of its figures are "
                "unknown. Repeat the command that made the run."
            )
        scored = row.scored()
        check_of_one_run(row.folder, "test embeddings", scored["test"], row.result["test"])
        copies.append(_copy(with_data_extras(scored, data).with_values(command=command)))
    folds = rows[0]["configuration"].get("num_folds", 0)
    if rows[0]["protocol"] == "fair" and folds > 1:
        copies += [_copy(joined.with_values(label=rows[0]["label"])) for joined in collection_rows(rows, folds)]
    return copies


def _copy(row: Row) -> Row:
    """Return a row of a study's folder, which keeps float32 sums."""
    return dataclasses.replace(row, sums={name: values.astype(np.float32) for name, values in row.sums.items()})
