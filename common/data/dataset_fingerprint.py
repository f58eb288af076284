"""Fingerprints that distinguish data sets by contents, labels and class names."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator

import numpy as np

from common.data.content_digests import content_digests
from common.data.dataset import Dataset, Examples, parts_of
from common.data.file_names import FileNames

_OF_FILES = "contents-"  # before it, fingerprints of image files were of their names and had no prefix
_DIGITS = 16
_BLOCK = 65_536  # labels that are Python's integers at the same time


def dataset_fingerprint(dataset: Dataset, cache_dir: str | os.PathLike) -> str:
    """Return a short text that changes with anything that training or evaluation sees.

    Of examples in memory: labels and values. Of image files: of each example, in order, the part, the label, the name
    of the class, the path below the folder that holds all of them, and the SHA-256 of the file's bytes; and, as it is
    read, an orientation that turns it and whether its profile is applied. Where that folder is, and when its files
    were written, makes no difference.

    Args:
        dataset: as loaded, not its prepared copies.
        cache_dir: where digests of files are kept, see `content_digests`; not used for examples in memory.

    Returns:
        Sixteen hexadecimal digits, after `contents-` if there are image files.

    Raises:
        InvalidInput: an image file is missing or cannot be read; it names it.
    """
    parts = parts_of(dataset)
    if any(examples.paths is not None for _, examples in parts):
        return _OF_FILES + _digest_of_files(dataset, parts, cache_dir)
    digest = hashlib.sha256(dataset.name.encode())
    for examples in (dataset.train, dataset.test, dataset.gallery, dataset.validation):
        if examples is None:
            continue
        digest.update(examples.labels.tobytes())
        if examples.inputs is not None:
            digest.update(np.ascontiguousarray(examples.inputs).tobytes())
    return digest.hexdigest()[:_DIGITS]


def is_of_names(fingerprint: str | None, dataset: Dataset) -> bool:
    """Return whether a fingerprint of image files covers only names and labels (old rule)."""
    return dataset.train.paths is not None and not str(fingerprint).startswith(_OF_FILES)


def count_test_copies(dataset: Dataset, cache_dir: str | os.PathLike) -> int:
    """Count test images with a byte-identical copy among those searched.

    Examples in memory count as none.

    Args:
        dataset: as loaded.
        cache_dir: where digests of files are kept, see `content_digests`.
    """
    if dataset.test.paths is None:
        return 0
    queries = content_digests(dataset.test.paths, cache_dir)
    if dataset.gallery is not None and dataset.gallery.paths is not None:
        return int(np.isin(queries, content_digests(dataset.gallery.paths, cache_dir)).sum())
    _, places, counts = np.unique(queries, return_inverse=True, return_counts=True)
    return int((counts[places] > 1).sum())


def _digest_of_files(dataset: Dataset, parts: list[tuple[str, Examples]], cache_dir: str | os.PathLike) -> str:
    files = [examples.paths for _, examples in parts if examples.paths is not None]
    names = FileNames.joined(files)
    places = {folder: os.path.abspath(folder or ".") for folder in names.folders()}
    root = os.path.commonpath(places.values())
    below = {folder: _relative(place, root) for folder, place in places.items()}
    contents = np.concatenate([_contents(examples, cache_dir) for _, examples in parts if examples.paths is not None])
    digest = hashlib.sha256(ascii(dataset.name).encode())
    for (part, label), name, content in zip(_labelled(parts), names.with_folders(below), contents):
        class_name = str(dataset.class_names[label]) if len(dataset.class_names) else ""
        digest.update(ascii((part, label, class_name, name, content.decode())).encode())
    if dataset.train.encounters is not None:
        digest.update(np.asarray(dataset.train.encounters, np.int64).tobytes())  # its folds validate by them
    return digest.hexdigest()[:_DIGITS]


def _contents(examples: Examples, cache_dir: str | os.PathLike) -> np.ndarray:
    return content_digests(examples.paths or (), cache_dir, reading=examples.reading)


def _relative(folder: str, root: str) -> str:
    """Return a folder's path below `root` with a final separator; empty for `root`."""
    relative = os.path.relpath(folder, root)
    return "" if relative == os.curdir else relative + os.sep


def _labelled(parts: list[tuple[str, Examples]]) -> Iterator[tuple[str, int]]:
    for part, examples in parts:
        for labels in np.array_split(examples.labels, max(1, len(examples) // _BLOCK)):
            for label in labels.tolist():
                yield part, label
