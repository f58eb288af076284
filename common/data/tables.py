"""Columns of tables, read strictly: CSV and other separated values, JSON lines, Parquet."""

from __future__ import annotations

import codecs
import collections
import csv
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

from common.data.labels import cell_text
from common.errors import InvalidInput, invalid, raise_all
from common.files import parsed_object

TABLE_ENDINGS = (".csv", ".tsv", ".txt", ".jsonl", ".parquet")
_SAVE_AS = "Save the table as UTF-8 (Excel: CSV UTF-8)."
_SEPARATOR = re.compile(r'"?sep=(.)"?[\r\n]*', re.IGNORECASE)  # Excel's first line
_LONGEST = 2**31 - 1  # characters of a field
_SHOWN = 60


def is_table(path: str) -> bool:
    """Check a file's name for the ending of a table."""
    return path.lower().endswith(TABLE_ENDINGS)


def read_table(
    path: str, required: Sequence[str], optional: Sequence[str] | None = ()
) -> tuple[list[str], dict[str, list[str]]]:
    """Read named columns of a table, by the ending of its name.

    Args:
        path: a `.parquet` file (which needs pyarrow), a `.jsonl` file of one JSON object on each line, or a file for
            `read_csv_table`.
        required: names of columns, in lower case; the header may have capitals and spaces around them. `file_name` is
            another name of `path`.
        optional: the same, of columns that may be missing; None: all others that have a name.

    Returns:
        Places of the rows, for errors, and the columns: the required ones and the optional ones that it has. A missing
        value is "".

    Raises:
        InvalidInput: a file that cannot be read, a column that is missing or there twice, a list as a value; with all
            wrong rows.
    """
    lowered = path.lower()
    if lowered.endswith(".parquet"):
        return _read_parquet(path, required, optional)
    return (_read_json_lines if lowered.endswith(".jsonl") else read_csv_table)(path, required, optional)


def read_csv_table(
    path: str, required: Sequence[str], optional: Sequence[str] | None = ()
) -> tuple[list[str], dict[str, list[str]]]:
    """Read named columns of a file of separated values.

    A row is a line: a line break within a field is refused, since it cannot be told from a quote that is not closed,
    which would swallow rows. Rows of blanks are skipped, and so is a first line `sep=;`.

    Args:
        path: of a file in UTF-8, or in UTF-16 with a byte order mark, as Excel writes it; separated by commas,
            semicolons or tabs.
        required, optional: see `read_table`.

    Raises:
        InvalidInput: as `read_table`; or a quote that is not closed, a row that is too short or too long, or text of
            another encoding.
    """
    places: list[str] = []
    problems: list[InvalidInput] = []
    limit = csv.field_size_limit()
    try:
        csv.field_size_limit(max(limit, min(os.path.getsize(path), _LONGEST)))
        # Names of files may be no UTF-8, all else is.
        encoding, errors = ("utf-16", "strict") if _has_wide_mark(path) else ("utf-8-sig", "surrogateescape")
        with open(path, encoding=encoding, errors=errors, newline="") as file:
            lines = enumerate(file, start=1)
            header, delimiter = _header(path, lines, required)
            place_of = {name: place for place, name in enumerate(header)}
            wanted = [(name, place_of[name]) for name in _checked_columns(path, header, required, optional)]
            columns: dict[str, list[str]] = {name: [] for name, _ in wanted}
            for number, line in lines:
                if not line.strip():
                    continue
                place = f"{path}, line {number}"
                try:
                    cells = _checked_cells(place, line, delimiter, header, wanted)
                except InvalidInput as problem:
                    problems.append(problem)
                    continue
                if cells:
                    places.append(place)
                    for name, value in zip(columns, cells):
                        columns[name].append(value)
    except (OSError, UnicodeError) as error:
        raise _unreadable(path, error) from error
    finally:
        csv.field_size_limit(limit)
    raise_all(problems)
    return places, columns


def _unreadable(path: str, error: OSError | UnicodeError) -> InvalidInput:
    if isinstance(error, OSError):
        return invalid("table", received=path, expected=f"a file that can be read ({error.strerror or error})")
    return invalid("table", received=path, expected=f"text in UTF-8 ({error})", fix=_SAVE_AS)


def _has_wide_mark(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def _header(path: str, lines: Iterator[tuple[int, str]], required: Sequence[str]) -> tuple[list[str], str]:
    """Read the names of the columns, and their delimiter."""
    number, line = next(lines, (1, ""))
    declared = _SEPARATOR.fullmatch(line)
    if declared:
        number, line = next(lines, (2, ""))
    place = f"{path}, line {number}"
    if "\0" in line:
        raise wrong_row(place, "null characters, as UTF-16 without a byte order mark has", "text in UTF-8", _SAVE_AS)
    delimiter = declared[1] if declared else _delimiter(path, line, required)
    return named(_cells(place, line, delimiter)), delimiter


def _delimiter(path: str, header: str, required: Sequence[str]) -> str:
    """Return the delimiter: a comma, unless only semicolons or tabs give all required columns.

    The header decides rather than `csv.Sniffer`, which guesses from the data and may find a letter.
    """
    usual = "\t,;" if path.lower().endswith(".tsv") else ",;\t"
    for delimiter in usual:
        if set(required) <= set(named(next(csv.reader([header], delimiter=delimiter), ()))):
            return delimiter
    return usual[0]


def _cells(place: str, line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True), [])
    except csv.Error as error:
        expected = f'quotes that close on their own line, with "" for a quote within them ({error})'
        raise wrong_row(place, line.strip()[:_SHOWN], expected) from error


def _checked_cells(
    place: str, line: str, delimiter: str, header: Sequence[str], wanted: Sequence[tuple[str, int]]
) -> list[str]:
    """Return the wanted cells of a row, or none of a blank row."""
    if "\0" in line:
        raise wrong_row(place, "a null character", "text in UTF-8", _SAVE_AS)
    cells = _cells(place, line, delimiter)
    if not any(map(str.strip, cells)):
        return []
    if any(map(str.strip, cells[len(header) :])):
        fix = f"Put a field that has a {delimiter!r} in it between quotes."
        raise wrong_row(place, f"{len(cells)} columns", f"at most the {len(header)} of the header", fix)
    missing = [name for name, at in wanted if at >= len(cells)]
    if missing:
        raise wrong_row(place, "too few columns", f"a value for {', '.join(missing[:3])}")
    found = [cells[at].strip() for _, at in wanted]
    for (name, _), value in zip(wanted, found):
        if name != "path" and not value.isascii():
            _check_utf8(place, name, value)
    return found


def _check_utf8(place: str, name: str, value: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        shown = value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")[:_SHOWN]
        raise wrong_row(place, f"{name} {shown}", "text in UTF-8, not in another encoding", _SAVE_AS) from error


def named(header: Iterable[str]) -> list[str]:
    """Normalise column names: no surrounding spaces, no capitals, `path` for a `file_name`."""
    names = [name.strip().lower() for name in header]
    return names if "path" in names else ["path" if name == "file_name" else name for name in names]


def _read_json_lines(
    path: str, required: Sequence[str], optional: Sequence[str] | None
) -> tuple[list[str], dict[str, list[str]]]:
    places: list[str] = []
    rows: list[dict] = []
    problems: list[InvalidInput] = []
    try:
        with open(path, encoding="utf-8-sig") as file:
            for number, line in enumerate(file, start=1):
                row = parsed_object(line)
                if row is not None:
                    places.append(f"{path}, line {number}")
                    rows.append(dict(zip(named(row), row.values())))
                elif line.strip():
                    expected = 'a JSON object on each line, such as {"path": "1.jpg"}'
                    problems.append(wrong_row(f"{path}, line {number}", line.strip()[:_SHOWN], expected))
    except (OSError, UnicodeError) as error:
        raise _unreadable(path, error) from error
    raise_all(problems)
    header = list(dict.fromkeys(name for row in rows for name in row))
    names = _checked_columns(path, header, required, optional)
    return places, column_texts(places, {name: [row.get(name) for row in rows] for name in names})


def _read_parquet(
    path: str, required: Sequence[str], optional: Sequence[str] | None
) -> tuple[list[str], dict[str, list[str]]]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise InvalidInput(
            f"Reading {path} needs pyarrow, which cannot be imported ({error}). Install it (pip install pyarrow), or "
            "save the table as .csv."
        ) from error
    try:
        file = parquet.ParquetFile(path)
        header = file.schema_arrow.names
        present = named(header)
        names = _checked_columns(path, present, required, optional)
        name_of = dict(zip(present, header))
        table = file.read(columns=[name_of[name] for name in names])
    except (OSError, ArrowException) as error:
        raise invalid("table", received=path, expected=f"a Parquet file ({error})") from error
    places = [f"{path}, row {number}" for number in range(1, table.num_rows + 1)]
    values = {name: column.to_pylist() for name, column in zip(named(table.column_names), table.itercolumns())}
    return places, column_texts(places, {name: values[name] for name in names})


def column_texts(places: Sequence[str], columns: dict[str, list[object]]) -> dict[str, list[str]]:
    """Convert the typed values of columns; only paths keep surrounding spaces.

    Raises:
        InvalidInput: a list or another collection, with the places of all.
    """
    texts: dict[str, list[str]] = {}
    problems: list[InvalidInput] = []
    for name, values in columns.items():
        texts[name] = []
        for place, value in zip(places, values):
            try:
                text = cell_text(value)
            except InvalidInput:
                received = f"{name} {str(value)[:_SHOWN]}"
                problems.append(wrong_row(place, received, "a single text or number"))
            else:
                texts[name].append(text if name == "path" else text.strip())
    raise_all(problems)
    return texts


def _checked_columns(
    path: str, present: Sequence[str], required: Sequence[str], optional: Sequence[str] | None
) -> list[str]:
    """Return the columns to read; refuse a header without one, or with one twice."""
    others = [name for name in present if name and (optional is None or name in optional)]
    names = list(dict.fromkeys((*required, *others)))
    counts = collections.Counter(present)
    if any(name not in counts for name in names):
        shown = ", ".join(present[:10]) + (f" and {len(present) - 10} more" if len(present) > 10 else "")
        raise wrong_row(path, f"the columns {shown}", f"a header with {', '.join(names)}")
    for name in names:
        if counts[name] > 1:
            raise wrong_row(path, f"{counts[name]} columns {name}", "one column of each name")
    return names


def spellings(path: str) -> tuple[str, ...]:
    """Return the spellings of a path in tables, the given one first.

    Windows has backslashes, and macOS decomposes letters (Unicode's NFD), which other systems keep composed (NFC).
    """
    written = (path, path.replace("\\", "/"))
    composed = [unicodedata.normalize("NFC", each) for each in written]
    decomposed = [unicodedata.normalize("NFD", each) for each in written]
    return tuple(dict.fromkeys([*written, *composed, *decomposed]))


def image_path(table: str, text: str, place: str) -> str:
    """Return the absolute path of a row's image.

    It is spelt as a listing of the folder spells it.

    Raises:
        InvalidInput: no such file.
    """
    folder = os.path.dirname(os.path.abspath(table))
    for spelling in spellings(text):
        path = os.path.join(folder, spelling)
        if os.path.isfile(path):
            return _plain(path)
    is_utf8 = text.isascii() or not re.search("[\udc80-\udcff]", text)
    raise wrong_row(place, os.path.join(folder, text), "an image file that exists", None if is_utf8 else _SAVE_AS)


def _plain(path: str) -> str:
    """Normalise a path, unless a link makes the result another file."""
    plain = os.path.normpath(path)
    return plain if plain == path or (os.path.exists(plain) and os.path.samefile(plain, path)) else path


def wrong_row(place: str, received: str, expected: str, fix: str | None = None) -> InvalidInput:
    """Return the error about a row, or about a table as a whole."""
    return invalid(f"table ({place})", received=received, expected=expected, fix=fix)
