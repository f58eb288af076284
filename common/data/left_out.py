"""Images and classes that training cannot use: refused, or left out with a notice."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from common.data.content_digests import content_digests
from common.data.dataset import Dataset, Examples, parts_of
from common.data.image_jobs import cannot_write_cache, run_image_jobs
from common.data.regular_files import unusable_image
from common.errors import invalid, raise_all
from common.files import read_json, write_json
from common.progress import write_notice

_VERSION = "1"  # of the search for unreadable images
_NUM_NAMED = 10  # images or classes that a notice names


def check_images(examples: Examples, cache_dir: str | os.PathLike) -> None:
    """Decode every image to its end, unless its contents were decoded before.

    Training decodes JPEG files in TensorFlow, which completes damaged ones with made-up pixels and reports nothing to
    the program. Prepared copies are made of whole images; originals used for training need this check.

    Args:
        examples: image files.
        cache_dir: keeps the files' digests, and the unreadable ones in its folder `sound`.

    Raises:
        InvalidInput: images that cannot be read to their end (it names them), or a folder that cannot be written.
    """
    raise_all(
        unusable_image(path, f"a complete image ({complaint})")
        for path, complaint in sorted(_complaints(examples, cache_dir).items())
    )


def without_unreadable(dataset: Dataset, cache_dir: str | os.PathLike) -> Dataset:
    """Leave out image files that cannot be read to their end.

    A notice names them.

    Args:
        dataset: image files.
        cache_dir: keeps the files' digests, and the unreadable ones in its folder `sound`.

    Raises:
        InvalidInput: no image of a part can be read, or the folder cannot be written.
    """
    complaints = {part: _complaints(examples, cache_dir) for part, examples in parts_of(dataset)}
    names = [f"{path} ({complaint})" for found in complaints.values() for path, complaint in found.items()]
    if not names:
        return dataset
    what = f"unreadable images left out: {len(names):,}"
    write_notice(f"{dataset.name}: {what}: {_named(names)}")
    kept = {}
    for part, examples in parts_of(dataset):
        sound = np.array([path not in complaints[part] for path in examples.file_names], bool)
        kept[part] = examples.subset(sound)
    return _renumbered(dataset, kept, what)


def without_small_classes(dataset: Dataset, min_images: int) -> Dataset:
    """Leave training classes with few images out of training.

    A notice names them. Test classes stay: their images can be found, and a single one is no query.

    Args:
        dataset: classes to train on.
        min_images: fewest images of a training class, at least 2.

    Raises:
        InvalidInput: all training classes are smaller.
    """
    counts = np.bincount(dataset.train.labels)
    small = np.flatnonzero(counts < min_images)
    if not len(small):
        return dataset
    if len(small) == len(counts):
        raise invalid(
            "--min_images",
            received=min_images,
            expected=f"at most {counts.max()}, the images of the largest training class of {dataset.name}",
            fix="Pairs of one class need two images: add photos, or give a smaller number of at least 2.",
        )
    names = [f"{dataset.class_names[label] if len(dataset.class_names) else label}" for label in small.tolist()]
    what = f"training classes with fewer than {min_images} images left out: {len(small):,}"
    write_notice(f"{dataset.name}: {what} (--min_images): {_named(names)}")
    train = dataset.train.subset(counts[dataset.train.labels] >= min_images)
    return _renumbered(dataset, {**dict(parts_of(dataset)), "train": train}, what)


def _complaints(examples: Examples, cache_dir: str | os.PathLike) -> dict[str, str]:
    """Return the reason for each file that cannot be read to its end."""
    opened = {path: os.path.isfile(path) and os.access(path, os.R_OK) for path in examples.file_names}
    found = {path: "cannot be opened" for path, is_open in opened.items() if not is_open}
    paths = [path for path, is_open in opened.items() if is_open]
    contents = dict(zip(paths, (each.decode() for each in content_digests(paths, cache_dir))))
    described = f"{_VERSION} {''.join(sorted(set(contents.values())))}"
    record = os.path.join(cache_dir, "sound", f"{hashlib.sha256(described.encode()).hexdigest()}.json")
    try:
        known = {} if os.path.exists(record.removesuffix(".json")) else read_json(record)  # without: of older versions
        if known is None:
            known = _decoded(contents)
            write_json(record, known)
    except OSError as error:
        raise cannot_write_cache(error) from error
    return found | {path: known[digest] for path, digest in contents.items() if digest in known}


def _decoded(contents: dict[str, str]) -> dict[str, str]:
    """Decode files, and return complaints by digest.

    Args:
        contents: digests by path.
    """
    from common.data.image_files import complaint_about  # which imports TensorFlow

    found = {}

    def look(path: str) -> None:
        complaint = complaint_about(path)
        if complaint is not None:
            found[contents[path]] = complaint

    run_image_jobs((functools.partial(look, path) for path in contents), "checking images", len(contents))
    return found


def _renumbered(dataset: Dataset, parts: dict[str, Examples], deviation: str) -> Dataset:
    """Return a data set of fewer images, with training classes numbered from 0 again."""
    training = np.unique(parts["train"].labels)
    others = np.unique(np.concatenate([examples.labels for examples in parts.values()]))
    order = np.concatenate([training, np.setdiff1d(others, training)])
    new = np.zeros(order.max(initial=0) + 1, np.int64)
    new[order] = np.arange(len(order))
    relabelled: dict[str, Any] = {
        part: dataclasses.replace(each, labels=new[each.labels]) for part, each in parts.items()
    }
    names = tuple(dataset.class_names[label] for label in order) if len(dataset.class_names) else ()
    deviations = (*dataset.deviations, f"{dataset.name}: {deviation}")
    return dataclasses.replace(dataset, **relabelled, class_names=names, deviations=deviations)


def _named(names: Iterable[str]) -> str:
    names = sorted(names)
    more = f", and {len(names) - _NUM_NAMED:,} more" if len(names) > _NUM_NAMED else ""
    return ", ".join(names[:_NUM_NAMED]) + more
