"""A table of images of one's own: path, label and split, as CSV or Parquet."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence

import numpy as np

from common.data.dataset import Dataset, Examples, check_training_pairs
from common.data.file_names import FileNames
from common.data.image_folder import OWN_IMAGES
from common.data.official_files import NO_DOWNLOAD_NEEDED
from common.errors import InvalidInput, invalid

_COLUMNS = ("path", "label", "split")
_SPLITS = ("train", "validation", "test", "gallery")
_DEFAULT_NAMES = ("manifest.csv", "manifest.parquet")


def load_manifest(data_dir: str | None, *, cache_dir: str | None = None, seed: int = 0) -> Dataset:
    """Loads the images that a table lists, with the split that it states.

    A row is an image: `path` (relative to the table's folder, or absolute), `label` (any text; the same text is the
    same class in every part) and `split`: `train`, `test`, and optionally `validation` (a fixed validation set instead
    of folds) and `gallery` (what the test images search; without it they search each other). Other columns are
    ignored. Training classes are numbered in the order in which they first occur, which is the order of the folds.

    Args:
        data_dir: a `.csv` file (UTF-8 with a header line; separated by commas, semicolons or tabs) or a `.parquet`
            file (which needs pyarrow); or a folder with `manifest.csv` or `manifest.parquet`.
        cache_dir: not used.
        seed: not used; the table states the split.

    Raises:
        InvalidInput: no table, a column or an image that is missing, a value that is not allowed, or rows that
            contradict each other (one image with two labels or in two splits); with the row.
    """
    path = _find(data_dir)
    rows = _read_parquet(path) if path.endswith(".parquet") else _read_csv(path)
    places, columns = rows
    for place, label, split in zip(places, columns["label"], columns["split"]):
        if split not in _SPLITS or not label:
            raise _wrong(place, f"label {label!r} and split {split!r}", f"a label, and one of {', '.join(_SPLITS)}")
    labels, class_names = _number_labels(columns["label"], columns["split"])
    paths = _existing(path, columns["path"], places)
    _check_agreement(paths, columns["label"], columns["split"], places)
    splits = np.array(columns["split"])
    parts = {
        split: Examples(labels=labels[splits == split], paths=paths[splits == split])
        for split in _SPLITS
        if (splits == split).any()
    }
    missing = [split for split in ("train", "test") if split not in parts]
    if missing:
        raise _wrong(path, f"no row with split {missing[0]}", "images to train on and images to test on")
    check_training_pairs(parts["train"], class_names, f"training set of {path}")
    return Dataset(
        name="manifest",
        train=parts["train"],
        test=parts["test"],
        gallery=parts.get("gallery"),
        validation=parts.get("validation"),
        class_names=class_names,
        deviations=(f"manifest: {OWN_IMAGES} ({os.path.basename(path)}); there are no published figures",),
        kind="image_files",
    )


def read_image_table(path: str) -> tuple[list[str], list[str] | None]:
    """Absolute paths of the images that a table lists, and their labels if it has a column of them.

    Args:
        path: a `.csv` or `.parquet` file with a column `path` (relative to the table's folder, or absolute), and
            possibly one named `label`; other columns, such as a manifest's `split`, are ignored.

    Raises:
        InvalidInput: no table, no such column, no row, or an image that is missing; with the row.
    """
    path = os.path.abspath(path)
    read = _read_parquet if path.endswith(".parquet") else _read_csv
    places, columns = read(path, ("path",), ("label",))
    if not places:
        raise _wrong(path, "no row", "a row for each image")
    return _existing(path, columns["path"], places).tolist(), columns.get("label")


def _find(data_dir: str | None) -> str:
    candidates = [] if data_dir is None else [data_dir, *(os.path.join(data_dir, name) for name in _DEFAULT_NAMES)]
    for candidate in candidates:
        if os.path.isfile(candidate) and candidate.endswith((".csv", ".parquet")):
            return os.path.abspath(candidate)
    raise invalid(
        "--data_dir",
        received=data_dir,
        expected=f"a .csv or .parquet file with the columns {', '.join(_COLUMNS)}, or a folder with "
        f"{' or '.join(_DEFAULT_NAMES)}",
        fix=f"Data sets that need no files: {', '.join(NO_DOWNLOAD_NEEDED)}.",
    )


def _read_csv(
    path: str, required: Sequence[str] = _COLUMNS, optional: Sequence[str] = ()
) -> tuple[list[str], dict[str, list[str]]]:
    """Places of the rows, for errors, and the columns: the required ones and the optional ones that it has."""
    places: list[str] = []
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            delimiter = _delimiter(file.readline(), required)
            file.seek(0)
            reader = csv.DictReader(file, delimiter=delimiter)
            present = reader.fieldnames or ()
            _check_columns(path, present, required)
            columns: dict[str, list[str]] = {name: [] for name in (*required, *set(optional).intersection(present))}
            for row in reader:
                places.append(f"{path}, line {reader.line_num}")
                for name in columns:
                    if row[name] is None:
                        raise _wrong(places[-1], "too few columns", f"a value for {name}")
                    columns[name].append(row[name].strip())
    except (OSError, csv.Error, UnicodeDecodeError) as error:
        raise invalid(
            "table",
            received=path,
            expected=f"a UTF-8 file of separated columns ({error})",
        ) from error
    return places, columns


def _delimiter(header: str, required: Sequence[str]) -> str:
    """What separates the columns: a comma, unless the header has all required ones only by a semicolon or a tab.

    The header decides rather than `csv.Sniffer`, which guesses from the data and may find a letter.
    """
    for delimiter in (",", ";", "\t"):
        if set(required) <= set(next(csv.reader([header], delimiter=delimiter), ())):
            return delimiter
    return ","


def _read_parquet(
    path: str, required: Sequence[str] = _COLUMNS, optional: Sequence[str] = ()
) -> tuple[list[str], dict[str, list[str]]]:
    """The same of a Parquet file."""
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise InvalidInput(
            f"Reading {path} needs pyarrow, which cannot be imported ({error}). Install it (pip install pyarrow), or "
            "save the table as .csv."
        ) from error
    try:
        present = parquet.read_schema(path).names
        _check_columns(path, present, required)
        names = [*required, *set(optional).intersection(present)]
        table = parquet.read_table(path, columns=names)
    except (OSError, ArrowException) as error:
        raise invalid("table", received=path, expected=f"a Parquet file ({error})") from error
    places = [f"{path}, row {number}" for number in range(1, table.num_rows + 1)]
    columns = {name: table[name].to_pylist() for name in names}
    return places, {name: ["" if value is None else str(value) for value in values] for name, values in columns.items()}


def _check_columns(path: str, present: Sequence[str], required: Sequence[str]) -> None:
    missing = [name for name in required if name not in present]
    if missing:
        raise _wrong(path, f"the columns {', '.join(present)}", f"a header with {', '.join(required)}")
    repeated = [name for name in required if list(present).count(name) > 1]
    if repeated:
        raise _wrong(path, f"{list(present).count(repeated[0])} columns {repeated[0]}", "one column of each name")


def _number_labels(names: list[str], splits: list[str]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Labels `[images]`, those of training classes first, and the name of each."""
    number_of: dict[str, int] = {}
    for wanted in ("train", None):
        for name, split in zip(names, splits):
            if wanted in (split, None):
                number_of.setdefault(name, len(number_of))
    return np.array([number_of[name] for name in names], np.int64), tuple(number_of)


def _existing(table: str, relative_paths: list[str], places: list[str]) -> FileNames:
    """Absolute paths `[images]` of files that are there."""
    folder = os.path.dirname(table)
    paths = [os.path.join(folder, path) for path in relative_paths]
    for path, place in zip(paths, places):
        if not os.path.isfile(path):
            raise _wrong(place, path, "an image file that exists")
    return FileNames(paths)


def _check_agreement(paths: FileNames, labels: list[str], splits: list[str], places: list[str]) -> None:
    """Raises `InvalidInput` that names the first row which gives an image another label or split than one before."""
    first_of: dict[str, int] = {}
    for row, path in enumerate(paths):
        first = first_of.setdefault(os.path.normpath(path), row)
        for what, values in (("label", labels), ("split", splits)):
            if values[row] != values[first]:
                raise _wrong(
                    places[row],
                    f"{path} with the {what} {values[row]!r}",
                    f"the {what} {values[first]!r} that it has in {places[first].rpartition(', ')[2]}",
                )


def _wrong(place: str, received: str, expected: str) -> InvalidInput:
    return invalid(f"table ({place})", received=received, expected=expected)
