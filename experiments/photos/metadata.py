"""Metadata of photos: columns of a CSV file, and filters by their values."""

from __future__ import annotations

import os
from collections import defaultdict

import numpy as np
from absl import flags

from common.data import read_csv_table
from common.errors import invalid
from common.index import EmbeddingIndex
from experiments.site.markup import plural


def read_metadata(path: str) -> dict[str, dict[str, str]]:
    """Read the columns of a CSV file, by the path in its column `path`.

    A path is relative to the file's folder, or absolute. The column `label` is left out, since labels are of
    `--images`.
    """
    if not path.endswith(".csv"):
        raise invalid("--metadata", received=path, expected="a .csv file with a column path")
    places, columns = read_csv_table(path, ("path",), None)
    names = sorted(columns.keys() - {"path", "label"})
    if not names:
        raise invalid("--metadata", received=f"{path} without other columns", expected="columns beside path and label")
    folder = os.path.dirname(os.path.abspath(path))
    found: dict[str, dict[str, str]] = {}
    for row, place in enumerate(places):
        photo = os.path.normpath(os.path.join(folder, columns["path"][row]))
        if photo in found:
            raise invalid("--metadata", received=f"{photo} twice ({place})", expected="one row for each photo")
        found[photo] = {name: columns[name][row] for name in names if columns[name][row]}
    return found


def set_metadata(index: EmbeddingIndex, metadata: dict[str, dict[str, str]], path: str) -> None:
    """Replace the metadata of the photos that a file names, and print their number."""
    known = metadata.keys() & set(index.ids)
    if not known:
        raise invalid("--metadata", received=f"{path} without a photo of the index", expected="paths of its photos")
    index.describe({photo: metadata[photo] for photo in known})
    others = f"; {plural(len(metadata) - len(known), 'row')} of other photos" if len(known) < len(metadata) else ""
    print(f"{path}: metadata of {plural(len(known), 'photo')}{others}.")


def chosen_rows(index: EmbeddingIndex, values: flags.FlagValues) -> np.ndarray | None:
    """Return the rows that `--label` and `--where` choose, or None for all.

    Values of one column are alternatives; all columns must fit.
    """
    conditions = defaultdict(list, {"label": list(values.label)} if values.label else {})
    for text in values.where or ():
        name, equals, value = text.partition("=")
        if not equals:
            raise invalid("--where", received=text, expected="COLUMN=VALUE, such as year=2020")
        conditions[name.strip().lower()].append(value.strip())
    return index.rows_where(conditions) if conditions else None
