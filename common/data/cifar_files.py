"""CIFAR-10 and CIFAR-100 in the layout of their binary version, and as images."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from common.data.dataset import Examples, check_official_counts
from common.data.image_files import load_rgb
from common.data.image_formats import Reading
from common.data.official_files import NO_DOWNLOAD_NEEDED
from common.data.regular_files import read_regular_file
from common.errors import InvalidInput, invalid

IMAGE_SIZE = 32
_NUM_VALUES = 3 * IMAGE_SIZE**2


class Cifar(NamedTuple):
    """All of a data set.

    Attributes:
        train: the official training images `[images, 32, 32, 3]` uint8; CIFAR-100 has superclasses.
        test: the official test images.
        class_names: of labels.
        coarse_names: of super-classes; empty for CIFAR-10.
        deviations: differences from the official release.
    """

    train: Examples
    test: Examples
    class_names: tuple[str, ...]
    coarse_names: tuple[str, ...]
    deviations: tuple[str, ...]


@dataclass(frozen=True)
class CifarRelease:
    """How the files of one of the two data sets are called.

    Args:
        name: on the command line.
        title: in messages.
        num_classes: classes.
        num_coarse: super-classes; 0 for none.
        binary_folder: of the binary version; its files end in `.bin`.
        python_folder: of the Python version, which is not read.
        train_files: file names without ending.
        test_files: the same.
        names_files: of the class names and those of super-classes.
    """

    name: str
    title: str
    num_classes: int
    num_coarse: int
    binary_folder: str
    python_folder: str
    train_files: tuple[str, ...]
    test_files: tuple[str, ...]
    names_files: tuple[str, ...]


CIFAR10 = CifarRelease(
    name="cifar10",
    title="CIFAR-10",
    num_classes=10,
    num_coarse=0,
    binary_folder="cifar-10-batches-bin",
    python_folder="cifar-10-batches-py",
    train_files=tuple(f"data_batch_{number}" for number in range(1, 6)),
    test_files=("test_batch",),
    names_files=("batches.meta.txt",),
)
CIFAR100 = CifarRelease(
    name="cifar100",
    title="CIFAR-100",
    num_classes=100,
    num_coarse=20,
    binary_folder="cifar-100-binary",
    python_folder="cifar-100-python",
    train_files=("train",),
    test_files=("test",),
    names_files=("fine_label_names.txt", "coarse_label_names.txt"),
)


def read_cifar(release: CifarRelease, data_dir: str | None) -> Cifar:
    """Read a data set from its first layout that exists.

    Args:
        release: which one.
        data_dir: the folder of the binary version, or of `train/CLASS/*` and `test/CLASS/*` image files; or the one
            that holds it under its official name (for image files, `cifar10` or `cifar100`).

    Raises:
        InvalidInput: there is none, or a file is missing, truncated or wrong; it names the file.
    """
    for folder in _candidates(data_dir, (release.binary_folder,)):
        if glob.glob(os.path.join(folder, "*.bin")):
            return _read_binary(release, folder)
    for folder in _candidates(data_dir, (release.name,)):
        if not release.num_coarse and all(os.path.isdir(os.path.join(folder, part)) for part in ("train", "test")):
            return _read_image_files(release, folder)
    named = [each for each in _candidates(data_dir, (release.python_folder,)) if os.path.isdir(each)]
    python_version = next(
        (each for each in named if os.path.basename(os.path.abspath(each)) == release.python_folder), ""
    )
    raise invalid(
        "--data_dir",
        received=data_dir,
        expected=f"the folder of {release.title}'s binary version, or the one above: {release.binary_folder}/"
        + (f"; {python_version} holds pickles, which are not read" if python_version else ""),
        fix=(
            f"`python -m experiments.prepare_data --dataset={release.name} --data_dir=FOLDER` fetches it. Data sets "
            f"that need no download: {', '.join(NO_DOWNLOAD_NEEDED)}."
        ),
    )


def _candidates(data_dir: str | None, names: Sequence[str]) -> list[str]:
    return [] if data_dir is None else [data_dir, *(os.path.join(data_dir, name) for name in names)]


def _read_binary(release: CifarRelease, folder: str) -> Cifar:
    parts, counts = {}, {}
    for part, names in (("train", release.train_files), ("test", release.test_files)):
        files = [_read_binary_file(release, os.path.join(folder, f"{name}.bin")) for name in names]
        counts.update({f"images of {name}.bin": len(file) for name, file in zip(names, files)})
        parts[part] = joined(files)
    class_names = [_read_names(os.path.join(folder, file)) for file in release.names_files]
    return _checked(release, parts, class_names, counts)


def joined(parts: Sequence[Examples]) -> Examples:
    """Return the examples of several parts, one part after the other."""
    superclasses = [part.superclasses for part in parts if part.superclasses is not None]
    labels, images = (np.concatenate(values) for values in zip(*((part.labels, part.arrays) for part in parts)))
    return Examples(labels, inputs=images, superclasses=np.concatenate(superclasses) if superclasses else None)


def _read_binary_file(release: CifarRelease, path: str) -> Examples:
    """Read records of labels (super-class first) and red, green and blue planes."""
    try:
        contents = np.fromfile(path, np.uint8)
    except OSError as error:
        raise _wrong_file(path, error.strerror or str(error), "a file of the binary version") from error
    num_labels = len(release.names_files)
    record = num_labels + _NUM_VALUES
    if not contents.size or contents.size % record:
        raise _wrong_file(
            path, f"{contents.size:,} bytes", f"a multiple of {record:,}, one record an image: it is truncated"
        )
    records = contents.reshape(-1, record)
    columns = [records[:, index].astype(np.int64) for index in reversed(range(num_labels))]
    for values, num_classes in zip(columns, (release.num_classes, release.num_coarse)):
        wrong = np.flatnonzero(values >= num_classes)
        if len(wrong):
            raise _wrong_file(
                path, f"label {values[wrong[0]]} of image {wrong[0]}", f"an integer from 0 to {num_classes - 1}"
            )
    planes = records[:, num_labels:].reshape(-1, 3, IMAGE_SIZE, IMAGE_SIZE)
    images = np.ascontiguousarray(planes.transpose(0, 2, 3, 1))
    return Examples(columns[0], inputs=images, superclasses=columns[1] if release.num_coarse else None)


def _read_image_files(release: CifarRelease, folder: str) -> Cifar:
    """Read `train/CLASS/*` and `test/CLASS/*`, classes by name (the official order)."""
    class_names = sorted(entry for entry in os.listdir(os.path.join(folder, "train")) if not entry.startswith("."))
    parts = {part: _read_image_part(os.path.join(folder, part), class_names) for part in ("train", "test")}
    cifar = _checked(release, parts, [class_names], {})
    return cifar._replace(deviations=(f"{release.name}: from image files, not from the release", *cifar.deviations))


def _read_image_part(folder: str, class_names: list[str]) -> Examples:
    files_of_class = [sorted(glob.glob(os.path.join(glob.escape(folder), name, "*.*"))) for name in class_names]
    labels = np.repeat(np.arange(len(class_names)), [len(files) for files in files_of_class])
    with ThreadPoolExecutor() as pool:
        images = list(pool.map(_read_image, [path for files in files_of_class for path in files]))
    if not images:
        raise _wrong_file(folder, "no image files", "CLASS/*.jpg or CLASS/*.png")
    return Examples(labels, inputs=np.stack(images))


def _read_image(path: str) -> np.ndarray:
    image = np.asarray(load_rgb(read_regular_file(path), path, Reading.STORED))
    if image.shape[:2] != (IMAGE_SIZE, IMAGE_SIZE):
        raise _wrong_file(path, f"{image.shape[1]} x {image.shape[0]} pixels", f"{IMAGE_SIZE} x {IMAGE_SIZE}")
    return image


def _read_names(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return [line.strip() for line in file if line.strip()]
    except OSError as error:
        raise _wrong_file(path, error.strerror or str(error), "a text file with a name a line") from error


def _checked(
    release: CifarRelease, parts: dict[str, Examples], names: Sequence[Sequence[str]], counts: dict[str, int]
) -> Cifar:
    """Check the number of names; return the data set with its deviations."""
    class_names, coarse_names = tuple(names[0]), tuple(names[1]) if len(names) > 1 else ()
    if (len(class_names), len(coarse_names)) != (release.num_classes, release.num_coarse):
        raise invalid(
            f"names of {release.title}",
            received=f"{len(class_names)} classes and {len(coarse_names)} super-classes",
            expected=f"{release.num_classes} and {release.num_coarse}",
        )
    images_of_file = {name: 50_000 // len(release.train_files) for name in release.train_files}
    images_of_file |= dict.fromkeys(release.test_files, 10_000)
    official = {what: images_of_file[what.split(" of ")[1].removesuffix(".bin")] for what in counts}
    official |= {"train images": 50_000, "test images": 10_000}
    found = {**counts, "train images": len(parts["train"]), "test images": len(parts["test"])}
    deviations = check_official_counts(release.name, official, found)
    return Cifar(parts["train"], parts["test"], class_names, coarse_names, deviations)


def _wrong_file(path: str, received: str, expected: str) -> InvalidInput:
    return invalid(f"file of CIFAR ({path})", received=received, expected=expected, fix="Extract the release again.")
