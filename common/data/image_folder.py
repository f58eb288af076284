"""Any folder of class folders: images of one's own, split by class with a seed."""

from __future__ import annotations

import os

import numpy as np

from common.data.class_splits import random_class_split
from common.data.dataset import Dataset, Examples, check_training_pairs
from common.data.official_files import NO_DOWNLOAD_NEEDED
from common.ops.checks import invalid

IMAGE_ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff")


def load_image_folder(
    data_dir: str | None, *, cache_dir: str | None = None, seed: int = 0, train_fraction: float = 0.5
) -> Dataset:
    """Loads a folder in which a class is a folder with image files in it, at any depth.

    Classes are taken in the order of their paths, images in the order of their names, so that the data set is the same
    on every file system. A random share of the classes trains, the others test.

    Args:
        data_dir: the folder.
        cache_dir: not used.
        seed: of the split.
        train_fraction: share of the classes that train, in (0, 1).

    Raises:
        InvalidInput: no folder, fewer than two classes, or a training class with a single image; it names the class.
    """
    if data_dir is None or not os.path.isdir(data_dir):
        raise _invalid_folder(data_dir)
    files_of_class = _find_classes(os.path.abspath(data_dir))
    if len(files_of_class) < 2:
        raise _invalid_folder(f"{data_dir} with {len(files_of_class)} class folders")

    names = sorted(files_of_class)
    train_ids, test_ids = random_class_split(len(names), train_fraction, seed)
    class_names = [names[class_id] for class_id in (*train_ids, *test_ids)]
    train = _examples(files_of_class, class_names, 0, len(train_ids))
    check_training_pairs(train, class_names, f"training set of {data_dir}")
    return Dataset(
        name="folder",
        train=train,
        test=_examples(files_of_class, class_names, len(train_ids), len(names)),
        class_names=tuple(class_names),
        deviations=(f"folder: images of your own, split by class with seed {seed}; there are no published figures",),
        kind="image_files",
    )


def _find_classes(root: str) -> dict[str, list[str]]:
    """Image files of every class, by the class folder's path relative to `root`; hidden folders are left out."""
    files_of_class = {}
    for directory, subdirectories, files in os.walk(root):
        subdirectories[:] = [name for name in subdirectories if not name.startswith(".")]
        images = sorted(name for name in files if name.lower().endswith(IMAGE_ENDINGS) and not name.startswith("."))
        if images and directory != root:
            class_name = os.path.relpath(directory, root).replace(os.sep, "/")
            files_of_class[class_name] = [os.path.join(directory, name) for name in images]
    return files_of_class


def _examples(files_of_class: dict[str, list[str]], class_names: list[str], first: int, end: int) -> Examples:
    """Examples of the classes with the labels `first` to `end - 1`."""
    labels = [label for label in range(first, end) for _ in files_of_class[class_names[label]]]
    paths = [path for label in range(first, end) for path in files_of_class[class_names[label]]]
    return Examples(labels=np.array(labels, np.int64), paths=np.array(paths))


def _invalid_folder(received):
    return invalid(
        "--data_dir",
        received=received,
        expected="a folder with at least two class folders, each with image files in it (CLASS/NAME.jpg)",
        fix=f"Data sets that need no download: {', '.join(NO_DOWNLOAD_NEEDED)}.",
    )
