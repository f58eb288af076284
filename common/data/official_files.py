"""Shared parts of official loaders: finding folders, reading listings, errors with line numbers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from common.data.dataset import Dataset, Examples, check_official_counts, check_training_pairs
from common.data.file_names import FileNames
from common.data.image_formats import Reading
from common.errors import InvalidInput, invalid

NO_DOWNLOAD_NEEDED = ("emoji", "glyphs", "glyph_scripts", "glyph_collage", "synthetic_tokens")


@dataclass(frozen=True)
class OfficialRelease:
    """Where a data set comes from and how it looks when it is extracted.

    Args:
        name: of the data set on the command line.
        title: its full name.
        download: a sentence on files to fetch and their source.
        folder: name of the folder that the release is extracted to; `data_dir` is this folder or the one that holds it.
        required: files and folders that must be there, relative to `folder`.
        official_counts: of images and classes by part, such as `{"train images": 8054, ...}`.
    """

    name: str
    title: str
    download: str
    folder: str
    required: tuple[str, ...]
    official_counts: dict[str, int]

    def find(self, data_dir: str | None) -> str:
        """Return the absolute folder with all required files: `data_dir` or the release's folder.

        Raises:
            InvalidInput: The files are missing. The message says what to download and where, the expected layout, and
                which data sets need no download.
        """
        for candidate in [] if data_dir is None else [data_dir, os.path.join(data_dir, self.folder)]:
            if all(os.path.exists(os.path.join(candidate, entry)) for entry in self.required):
                return os.path.abspath(candidate)
        layout = f"{self.folder}/ (or the folder it is in) with {', '.join(self.required)}"
        raise invalid(
            "--data_dir",
            received=data_dir,
            expected=f"the folder of {self.title}: {layout}",
            fix=(
                f"{self.download} `python -m experiments.prepare_data --dataset={self.name}` does so where it can. "
                f"Data sets that need no download: {', '.join(NO_DOWNLOAD_NEEDED)}."
            ),
        )

    def is_at(self, data_dir: str | None) -> bool:
        """Return whether `find` succeeds."""
        try:
            return bool(self.find(data_dir))
        except InvalidInput:
            return False


def read_rows(path: str, num_columns: int, num_header_lines: int = 0) -> list[tuple[str, list[str]]]:
    """Read rows of columns between blanks; the last column may contain blanks.

    Returns:
        For each row that is not empty its place ("images.txt, line 7", for error messages) and its columns.

    Raises:
        InvalidInput: the file cannot be read, or a row has too few columns; with the line.
    """
    rows = []
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file, 1):
                columns = line.strip().split(maxsplit=num_columns - 1)
                if number <= num_header_lines or not columns:
                    continue
                place = f"{path}, line {number}"
                if len(columns) < num_columns:
                    raise wrong_annotation(place, line.strip(), f"{num_columns} columns")
                rows.append((place, columns))
    except OSError as error:
        raise invalid("annotation file", received=path, expected=f"a readable text file ({error.strerror})") from error
    return rows


def read_integer(place: str, text: str, lowest: int, highest: int | None = None) -> int:
    """Return the integer in `text`; raise `InvalidInput` if absent or out of range."""
    at_most = "" if highest is None else f" to {highest}"
    try:
        number = int(text)
    except ValueError:
        raise wrong_annotation(place, text, f"an integer from {lowest}{at_most}") from None
    if number < lowest or (highest is not None and number > highest):
        raise wrong_annotation(place, number, f"an integer from {lowest}{at_most}")
    return number


def wrong_annotation(place: str, received: object, expected: str) -> InvalidInput:
    """Return the error for an annotation that is malformed or contradicts another."""
    return invalid(
        f"annotation ({place})",
        received=received,
        expected=expected,
        fix="Extract the official annotation files again.",
    )


def existing_files(folder: str, relative_paths: Sequence[str], places: Sequence[str]) -> FileNames:
    """Return absolute paths `[files]` of listed files, after checking their folders.

    Args:
        folder: that the paths are relative to.
        relative_paths: `[files]`, with forward slashes.
        places: `[files]` where each is listed.

    Raises:
        InvalidInput: a listed file is not there; it names the file and the line that lists it.
    """
    present = {}
    for relative_path, place in zip(relative_paths, places):
        directory, _, name = relative_path.rpartition("/")
        if directory not in present:
            present[directory] = _names_in(os.path.join(folder, directory))
        if name not in present[directory]:
            raise wrong_annotation(place, relative_path, f"a file in {folder}")
    return FileNames(os.path.join(folder, path) for path in relative_paths)


def official_dataset(
    release: OfficialRelease,
    train: Examples,
    test: Examples,
    class_names: Sequence[str],
    gallery: Examples | None = None,
    deviations: tuple[str, ...] = (),
) -> Dataset:
    """Make the data set of image files, with its deviations from the official counts.

    Args:
        release: the official one.
        train: labels from 0.
        test: labels that continue after those of `train`.
        class_names: of all labels.
        gallery: if it is separate from the queries.
        deviations: those that counts do not show.

    Raises:
        InvalidInput: a training class with no image or a single one, or no classes to test on.
    """
    num_train_classes = train.num_classes
    without_image = np.setdiff1d(np.arange(train.labels.max(initial=-1) + 1), train.labels)
    if len(without_image):
        raise invalid(
            f"training set of {release.name}",
            received=f"no image of class {class_names[without_image[0]]}",
            expected="at least two images in every training class",
            fix="Extract the official files again.",
        )
    check_training_pairs(train, class_names, f"training set of {release.name}")
    found = {"train images": len(train), "train classes": num_train_classes}
    if gallery is None:
        found.update({"test images": len(test), "test classes": test.num_classes})
    else:
        found.update({"query images": len(test), "query classes": test.num_classes})
        found.update({"gallery images": len(gallery), "gallery classes": gallery.num_classes})
    return Dataset(
        name=release.name,
        train=_as_published(train),
        test=_as_published(test),
        gallery=None if gallery is None else _as_published(gallery),
        class_names=tuple(class_names),
        deviations=deviations + check_official_counts(release.name, release.official_counts, found),
    )


def _as_published(examples: Examples) -> Examples:
    """Return the examples as read by the published code."""
    return replace(examples, reading=Reading.STORED)


def split_by_class_order(release: OfficialRelease, num_classes: int) -> tuple[int, tuple[str, ...]]:
    """Return the number of first classes that train: official, or half of incomplete data.

    Returns:
        The number of training classes and the deviations that it makes.

    Raises:
        InvalidInput: more classes than the official data set has, or fewer than two.
    """
    official_train = release.official_counts["train classes"]
    official_total = official_train + release.official_counts["test classes"]
    if not 2 <= num_classes <= official_total:
        raise invalid(
            f"number of classes of {release.name}",
            received=num_classes,
            expected=f"an integer from 2 to {official_total}",
        )
    if num_classes == official_total:
        return official_train, ()
    num_train = num_classes // 2
    return num_train, (
        f"{release.name}: {num_classes} of {official_total} classes, of which the first {num_train} train",
    )


def _names_in(directory: str) -> frozenset[str]:
    try:
        return frozenset(os.listdir(directory))
    except OSError:
        return frozenset()
