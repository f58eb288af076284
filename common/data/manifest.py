"""A table of custom images: path, label and split, as CSV or Parquet."""

from __future__ import annotations

import codecs
import csv
import os
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from common.data.dataset import Dataset, Examples, check_training_pairs
from common.data.file_names import FileNames
from common.data.image_folder import OWN_IMAGES
from common.data.official_files import NO_DOWNLOAD_NEEDED
from common.errors import InvalidInput, invalid, raise_all

_COLUMNS = ("path", "label", "split")
_SPLITS = ("train", "validation", "test", "gallery")
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
    of folds) and `gallery` (searched by the test images; without it they search each other). Other columns are
    ignored. Training classes are numbered in the order of their first row, which is the order of the folds.
    A training image may have several rows, and is drawn as often; in another part it would find itself.

    Args:
        data_dir: a `.csv` file (UTF-8, or UTF-16 as Excel writes it, with a header line; separated by commas,
            semicolons or tabs) or a `.parquet` file (which needs pyarrow); or a folder with `manifest.csv` or
            `manifest.parquet`. Names of columns and splits may have capitals, and paths backslashes.
        cache_dir: not used.
        seed: not used; the table states the split.
        problems: a list that gets the errors of rows and classes, for a report on all of them; these rows are left
            out. None: the errors are raised.
        single_images: whether a training class may have one image; see `without_small_classes`.
        label_column: name of the column with the labels, such as a level of a hierarchy.

    Raises:
        InvalidInput: no table, a column or an image that is missing, a value that is not allowed, rows that contradict
            each other (one image with two labels or in two splits), or a test, gallery or validation image in two
            rows, also by a link; with the rows.
    """
    path = _find(data_dir)
    read = _read_parquet if path.endswith(".parquet") else read_csv_table
    label_column = label_column.strip().lower()
    places, columns = read(path, [label_column if name == "label" else name for name in _COLUMNS])
    columns["label"] = columns[label_column]
    columns["split"] = [split.lower() for split in columns["split"]]
    found: list[InvalidInput] = []
    paths, kept = _sound_rows(path, places, columns, found)
    labels, class_names = _number_labels(
        [columns["label"][row] for row in kept], [columns["split"][row] for row in kept]
    )
    splits = np.array([columns["split"][row] for row in kept], np.str_)
    parts = {
        split: Examples(labels=labels[splits == split], paths=paths[splits == split])
        for split in _SPLITS
        if (splits == split).any()
    }
    missing = [split for split in ("train", "test") if split not in parts]
    if missing:
        absent = _wrong(path, f"no row with split {missing[0]}", "images to train on and images to test on")
        raise_all([*found, absent])
    if not single_images:
        _check_pairs_of_rows(path, columns, found)
    if problems is None:
        raise_all(found)
    else:
        problems += found
    return Dataset(
        name="manifest",
        train=parts["train"],
        test=parts["test"],
        gallery=parts.get("gallery"),
        validation=parts.get("validation"),
        class_names=class_names,
        deviations=tuple(_deviations(path, parts["train"])),
        kind="image_files",
    )


def _deviations(path: str, train: Examples) -> Iterator[str]:
    yield f"manifest: {OWN_IMAGES} ({os.path.basename(path)}); there are no published figures"
    num_repeated = len(train) - len(set(map(os.path.normpath, train.file_names)))
    if num_repeated:
        what = f"{num_repeated} training rows repeat an image, which is drawn as often"
        yield f"manifest: {what} and finds itself where training classes validate"


def read_image_table(path: str) -> tuple[list[str], list[str] | None]:
    """Read absolute paths of a table's images, and labels, if any.

    Args:
        path: a `.csv` or `.parquet` file with a column `path` (relative to the table's folder, or absolute), and
            possibly one named `label`; other columns, such as a manifest's `split`, are ignored.

    Raises:
        InvalidInput: no table, no such column, no row, an image that is missing or in two rows; with the rows.
    """
    path = os.path.abspath(path)
    read = _read_parquet if path.endswith(".parquet") else read_csv_table
    places, columns = read(path, ("path",), ("label",))
    if not places:
        raise _wrong(path, "no row", "a row for each image")
    paths: list[str] = []
    place_of: dict[str, str] = {}
    for place, text in zip(places, columns["path"]):
        paths.append(_existing(path, text, place))
        first = place_of.setdefault(os.path.normpath(paths[-1]), place)
        if first != place:
            raise _wrong(place, f"{text} once more", f"one row for each image: {_row_of(first)} has it already")
    return paths, columns.get("label")


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


def read_csv_table(
    path: str, required: Sequence[str], optional: Sequence[str] | None = ()
) -> tuple[list[str], dict[str, list[str]]]:
    """Read named columns of a file of separated values.

    Args:
        path: of a file in UTF-8, or in UTF-16 with a byte order mark, as Excel writes it; separated by commas,
            semicolons or tabs.
        required: names of columns, in lower case; the header may have capitals and spaces around them.
        optional: the same, of columns that may be missing; None: all others that have a name.

    Returns:
        Places of the rows, for errors, and the columns: the required ones and the optional ones that it has.

    Raises:
        InvalidInput: a file that cannot be read, a column that is missing or there twice, a row that is too short.
    """
    places: list[str] = []
    try:
        with open(path, "rb") as file:
            is_wide = file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
        # Names of files may be no UTF-8, all else is.
        encoding, errors = ("utf-16", "strict") if is_wide else ("utf-8-sig", "surrogateescape")
        with open(path, encoding=encoding, errors=errors, newline="") as file:
            delimiter = _delimiter(file.readline(), required)
            file.seek(0)
            reader = csv.reader(file, delimiter=delimiter)
            header = _plain(next(reader, ()))
            others = set(header if optional is None else optional).intersection(header) - {""}
            _check_columns(path, header, required)
            _check_columns(path, header, sorted(others))
            columns: dict[str, list[str]] = {name: [] for name in (*required, *others)}
            for row in filter(None, reader):
                places.append(f"{path}, line {reader.line_num}")
                for name, values in columns.items():
                    if header.index(name) >= len(row):
                        raise _wrong(places[-1], "too few columns", f"a value for {name}")
                    values.append(row[header.index(name)].strip())
                    if name != "path":
                        values[-1].encode()
    except (OSError, csv.Error, UnicodeError) as error:
        raise invalid(
            "table",
            received=path,
            expected=f"a UTF-8 file of separated columns ({error})",
        ) from error
    return places, columns


def _plain(header: Iterable[str]) -> list[str]:
    """Normalise column names: no surrounding spaces, no capitals."""
    return [name.strip().lower() for name in header]


def _delimiter(header: str, required: Sequence[str]) -> str:
    """Return the delimiter: a comma, unless only semicolons or tabs give all required columns.

    The header decides rather than `csv.Sniffer`, which guesses from the data and may find a letter.
    """
    for delimiter in (",", ";", "\t"):
        if set(required) <= set(_plain(next(csv.reader([header], delimiter=delimiter), ()))):
            return delimiter
    return ","


def _read_parquet(
    path: str, required: Sequence[str], optional: Sequence[str] = ()
) -> tuple[list[str], dict[str, list[str]]]:
    """Read the same of a Parquet file."""
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise InvalidInput(
            f"Reading {path} needs pyarrow, which cannot be imported ({error}). Install it (pip install pyarrow), or "
            "save the table as .csv."
        ) from error
    try:
        header = parquet.read_schema(path).names
        present = _plain(header)
        _check_columns(path, present, required)
        names = [*required, *set(optional).intersection(present)]
        table = parquet.read_table(path, columns=[header[present.index(name)] for name in names])
    except (OSError, ArrowException) as error:
        raise invalid("table", received=path, expected=f"a Parquet file ({error})") from error
    places = [f"{path}, row {number}" for number in range(1, table.num_rows + 1)]
    columns = {name: column.to_pylist() for name, column in zip(names, table.columns)}
    return places, {name: list(map(_text, values)) for name, values in columns.items()}


def _text(value: object) -> str:
    """Return a value as text; bytes are file names, perhaps not UTF-8."""
    return "" if value is None else os.fsdecode(value) if isinstance(value, bytes) else str(value)


def _check_columns(path: str, present: Sequence[str], required: Sequence[str]) -> None:
    missing = [name for name in required if name not in present]
    if missing:
        raise _wrong(path, f"the columns {', '.join(present)}", f"a header with {', '.join(required)}")
    repeated = [name for name in required if list(present).count(name) > 1]
    if repeated:
        raise _wrong(path, f"{list(present).count(repeated[0])} columns {repeated[0]}", "one column of each name")


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
) -> tuple[FileNames, list[int]]:
    """Return paths and numbers of sound rows; `found` gets the others' errors."""
    paths: list[str] = []
    kept: list[int] = []
    first_of: dict[object, int] = {}
    for row, (place, text, *facts) in enumerate(zip(places, *(columns[name] for name in _COLUMNS))):
        label, split = facts
        try:
            if split not in _SPLITS or not label:
                expected = f"a label, and one of {', '.join(_SPLITS)}"
                raise _wrong(place, f"label {label!r} and split {split!r}", expected)
            path = _existing(table, text, place)
            status = os.stat(path)
            identity = (status.st_dev, status.st_ino) if status.st_ino else os.path.normpath(path)
            first = first_of.setdefault(identity, row)
            if first != row:
                _check_repeated(place, path, facts, places[first], [columns[name][first] for name in _COLUMNS[1:]])
        except InvalidInput as problem:
            found.append(problem)
        else:
            paths.append(path)
            kept.append(row)
    return FileNames(paths), kept


def _existing(table: str, text: str, place: str) -> str:
    """Return an image's absolute path, with slashes for backslashes if only that exists."""
    for relative in (text, text.replace("\\", "/")):
        path = os.path.join(os.path.dirname(table), relative)
        if os.path.isfile(path):
            return path
    raise _wrong(place, os.path.join(os.path.dirname(table), text), "an image file that exists")


def _check_repeated(place: str, path: str, facts: list[str], first_place: str, first_facts: list[str]) -> None:
    """Refuse a second row of an image unless it repeats a training row."""
    for what, value, first in zip(_COLUMNS[1:], facts, first_facts):
        if value != first:
            expected = f"the {what} {first!r} that it has in {_row_of(first_place)}"
            raise _wrong(place, f"{path} with the {what} {value!r}", expected)
    split = facts[-1]
    if split != "train":
        expected = f"each {split} image once: {_row_of(first_place)} has it already, so that it would find itself"
        raise _wrong(place, f"{path} once more", expected)


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


def _wrong(place: str, received: str, expected: str) -> InvalidInput:
    return invalid(f"table ({place})", received=received, expected=expected)
