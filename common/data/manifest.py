"""A table of custom images: path, label and split."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from common.data.dataset import Dataset, Examples, check_training_pairs
from common.data.file_names import FileNames
from common.data.image_folder import OWN_IMAGES
from common.data.labels import label_text
from common.data.official_files import NO_DOWNLOAD_NEEDED
from common.data.tables import (
    TABLE_ENDINGS,
    image_path,
    is_table,
    read_csv_table as read_csv_table,  # one of this module's names
    read_table,
    wrong_row,
)
from common.errors import InvalidInput, invalid, raise_all

_COLUMNS = ("path", "label", "split")
ENCOUNTER_COLUMNS = ("encounter", "time")
_SPLITS = ("train", "validation", "test", "gallery")
_SIDES = {"train": "train", "validation": "validation", "test": "test", "gallery": "test"}  # of an encounter
_MINUTE = re.compile(r"\d{4}\D\d\d\D\d\d\D\d\d\D\d\d")  # ISO 8601, or as in EXIF
_DEFAULT_NAMES = ("manifest.csv", "manifest.parquet")


def load_manifest(
    data_dir: str | None,
    *,
    cache_dir: str | None = None,
    seed: int = 0,
    problems: list[InvalidInput] | None = None,
    single_images: bool = False,
    label_column: str = "label",
) -> Dataset:
    """Load the images of a table, with the split that it gives.

    A row is an image: `path` (relative to the table's folder, or absolute), `label` (any text; the same text is the
    same class in every part) and `split`: `train`, `test`, and optionally `validation` (a fixed validation set instead
    of folds) and `gallery` (searched by the test images; without it they search each other). A column `encounter` or
    else `time` (see `encounter_of`) keeps images of one encounter from finding each other: only the first tests and
    validates; with a gallery, test images of its encounters are left out. Other columns are ignored. Training classes
    are numbered in the order of their first row, which is the order of the folds. A training image may have several
    rows, and is drawn as often; in another part it would find itself.

    Args:
        data_dir: a table, as `read_table` reads it; or a folder with `manifest.csv` or `manifest.parquet`. Splits may
            have capitals, and paths backslashes.
        cache_dir: not used.
        seed: not used; the table states the split.
        problems: a list that gets the errors of rows and classes, for a report on all of them; these rows are left
            out. None: the errors are raised.
        single_images: whether a training class may have one image; see `without_small_classes`.
        label_column: name of the column with the labels, such as a level of a hierarchy.

    Raises:
        InvalidInput: no table, a column or an image that is missing, a value that is not allowed, rows that contradict
            each other (one image with two labels or in two splits; an encounter of a class in two splits, except test
            and gallery), or a test, gallery or validation image in two rows, also by a link; with the rows.
    """
    path = _find(data_dir)
    label_column = label_column.strip().lower()
    required = [label_column if name == "label" else name for name in _COLUMNS]
    places, columns = read_table(path, required, [name for name in ENCOUNTER_COLUMNS if name not in required])
    columns["label"] = list(map(label_text, columns.pop(label_column)))
    columns["split"] = [split.lower() for split in columns["split"]]
    found: list[InvalidInput] = []
    paths, kept, encounters = _sound_rows(path, places, columns, found)
    labels, class_names = _number_labels(
        [columns["label"][row] for row in kept], [columns["split"][row] for row in kept]
    )
    splits = np.array([columns["split"][row] for row in kept], np.str_)
    parts: dict[str, Any] = {}
    for split in _SPLITS:
        if (chosen := splits == split).any():
            of_part = None if encounters is None else encounters[chosen]
            parts[split] = Examples(labels=labels[chosen], paths=paths[chosen], encounters=of_part)
    missing = [split for split in ("train", "test") if split not in parts]
    if missing:
        absent = wrong_row(path, f"no row with split {missing[0]}", "images to train on and images to test on")
        raise_all([*found, absent])
    if not single_images:
        _check_pairs_of_rows(path, columns, found)
    if problems is None:
        raise_all(found)
    else:
        problems += found
    deviations = list(_deviations(path, parts["train"]))
    if encounters is not None:
        deviations.append(_keep_encounters_apart(parts))
    return Dataset(name="manifest", class_names=class_names, deviations=tuple(deviations), **parts)


def _deviations(path: str, train: Examples) -> Iterator[str]:
    yield f"manifest: {OWN_IMAGES} ({os.path.basename(path)}); there are no published figures"
    num_repeated = len(train) - len(set(map(os.path.normpath, train.file_names)))
    if num_repeated:
        what = f"{num_repeated} training rows repeat an image, which is drawn as often"
        yield f"manifest: {what} and finds itself where training classes validate"


def _keep_encounters_apart(parts: dict[str, Any]) -> str:
    """Leave out what an encounter makes easy to find, and say how much."""
    count, gallery = len(parts["test"]), parts.get("gallery")
    parts["test"] = parts["test"].once_per_encounter(gallery)
    if "validation" in parts:
        parts["validation"] = parts["validation"].once_per_encounter()
    if not len(parts["test"]):
        raise invalid("test images", received="only encounters of the gallery", expected="others: they find themselves")
    shared = int(np.isin(parts["test"].encounters, parts["train"].encounters).sum())
    known = f"; {shared} others are of an encounter of another class in training" if shared else ""
    left_out = f"{count - len(parts['test'])} test images of an encounter that is there already are left out"
    return f"manifest: {left_out}{known}"


def encounter_of(place: str, path: str, columns: dict[str, list[str]], row: int) -> tuple[str, str]:
    """Return the encounter of a row.

    It is the column `encounter`, or the folder of `path` and a minute of the column `time`. A photo without either is
    an encounter of its own.

    Raises:
        InvalidInput: a time that is none, of the row at `place`.
    """
    text = columns["encounter" if "encounter" in columns else "time"][row]
    if not text or "encounter" in columns:
        return "", text or path
    if minute := _MINUTE.match(text):
        return os.path.dirname(path), re.sub(r"\D", "", minute[0])
    expected = "year, month, day, hour and minute, by ISO 8601"
    raise wrong_row(place, f"time {text!r}", expected, "Rename the column if it is none of photos.")


def read_image_table(path: str) -> tuple[list[str], list[str] | None]:
    """Read absolute paths of a table's images, and labels, if any.

    Args:
        path: a table, as `read_table` reads it, with a column `path` (relative to the table's folder, or absolute), and
            possibly one named `label`; other columns, such as a manifest's `split`, are ignored.

    Raises:
        InvalidInput: no table, no such column, no row, an image that is missing or in two rows; with the rows.
    """
    path = os.path.abspath(path)
    places, columns = read_table(path, ("path",), ("label",))
    if not places:
        raise wrong_row(path, "no row", "a row for each image")
    paths: list[str] = []
    problems: list[InvalidInput] = []
    place_of: dict[str, str] = {}
    for place, text in zip(places, columns["path"]):
        try:
            paths.append(image_path(path, text, place))
            first = place_of.setdefault(os.path.normpath(paths[-1]), place)
            if first != place:
                raise wrong_row(place, f"{text} once more", f"one row for each image: {_row_of(first)} has it already")
        except InvalidInput as problem:
            problems.append(problem)
    raise_all(problems)
    return paths, list(map(label_text, columns["label"])) if "label" in columns else None


def _find(data_dir: str | None) -> str:
    candidates = [] if data_dir is None else [data_dir, *(os.path.join(data_dir, name) for name in _DEFAULT_NAMES)]
    for candidate in candidates:
        if os.path.isfile(candidate) and is_table(candidate):
            return os.path.abspath(candidate)
    raise invalid(
        "--data_dir",
        received=data_dir,
        expected=f"a table ({', '.join(TABLE_ENDINGS)}) with the columns {', '.join(_COLUMNS)}, or a folder with "
        f"{' or '.join(_DEFAULT_NAMES)}",
        fix=f"Data sets that need no files: {', '.join(NO_DOWNLOAD_NEEDED)}.",
    )


def _number_labels(names: list[str], splits: list[str]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return labels `[images]`, training classes first, and the name of each."""
    number_of: dict[str, int] = {}
    for wanted in ("train", None):
        for name, split in zip(names, splits):
            if wanted in (split, None):
                number_of.setdefault(name, len(number_of))
    return np.array([number_of[name] for name in names], np.int64), tuple(number_of)


def _sound_rows(
    table: str, places: list[str], columns: dict[str, list[str]], found: list[InvalidInput]
) -> tuple[FileNames, list[int], np.ndarray | None]:
    """Return paths, numbers and any encounters of sound rows; `found` gets the others' errors."""
    paths: list[str] = []
    kept: list[int] = []
    encounters: list[tuple[str, str]] = []
    first_of: dict[object, int] = {}
    first_met: dict[object, int] = {}
    has_encounters = not {*ENCOUNTER_COLUMNS}.isdisjoint(columns)
    for row, (place, text, *facts) in enumerate(zip(places, *(columns[name] for name in _COLUMNS))):
        label, split = facts
        try:
            if split not in _SPLITS or not label:
                expected = f"a label, and one of {', '.join(_SPLITS)}"
                raise wrong_row(place, f"label {label!r} and split {split!r}", expected)
            path = image_path(table, text, place)
            status = os.stat(path)
            identity = (status.st_dev, status.st_ino) if status.st_ino else os.path.normpath(path)
            first = first_of.setdefault(identity, row)
            if first != row:
                _check_repeated(place, path, facts, places[first], [columns[name][first] for name in _COLUMNS[1:]])
            if has_encounters:
                encounter = encounter_of(place, os.path.normpath(path), columns, row)
                other = first_met.setdefault((encounter, label), row)
                if _SIDES[columns["split"][other]] != _SIDES[split]:
                    expected = f"{columns['split'][other]}, as the encounter has it in {_row_of(places[other])}"
                    raise wrong_row(place, f"split {split} for an encounter of {label}", expected)
                encounters.append(encounter)
        except InvalidInput as problem:
            found.append(problem)
        else:
            paths.append(path)
            kept.append(row)
    numbers = {each: number for number, each in enumerate(dict.fromkeys(encounters))}
    return FileNames(paths), kept, np.array([numbers[each] for each in encounters]) if has_encounters else None


def _check_repeated(place: str, path: str, facts: list[str], first_place: str, first_facts: list[str]) -> None:
    """Refuse a second row of an image unless it repeats a training row."""
    for what, value, first in zip(_COLUMNS[1:], facts, first_facts):
        if value != first:
            expected = f"the {what} {first!r} that it has in {_row_of(first_place)}"
            raise wrong_row(place, f"{path} with the {what} {value!r}", expected)
    split = facts[-1]
    if split != "train":
        expected = f"each {split} image once: {_row_of(first_place)} has it already, so that it would find itself"
        raise wrong_row(place, f"{path} once more", expected)


def _check_pairs_of_rows(path: str, columns: dict[str, list[str]], found: list[InvalidInput]) -> None:
    """Add an error to `found` if a training class has a single row."""
    stated = [label for label, split in zip(columns["label"], columns["split"]) if label and split == "train"]
    labels, class_names = _number_labels(stated, ["train"] * len(stated))
    try:
        check_training_pairs(Examples(labels), class_names, f"training set of {path}")
    except InvalidInput as problem:
        found.append(problem)


def _row_of(place: str) -> str:
    return place.rpartition(", ")[2]
