"""CUB-200-2011: 11,788 photographs of 200 kinds of birds."""

from __future__ import annotations

import os

import numpy as np

from common.data.dataset import Dataset, Examples
from common.data.official_files import (
    OfficialRelease,
    existing_files,
    official_dataset,
    read_integer,
    read_rows,
    split_by_class_order,
    wrong_annotation,
)

_RELEASE = OfficialRelease(
    name="cub200",
    title="CUB-200-2011",
    download=(
        "Download CUB_200_2011.tgz (1.1 GB) from https://data.caltech.edu/records/65de6-vp158 (described at "
        "https://www.vision.caltech.edu/datasets/cub_200_2011/) and extract it."
    ),
    folder="CUB_200_2011",
    required=("images/", "images.txt", "image_class_labels.txt", "classes.txt"),
    official_counts={"train images": 5864, "train classes": 100, "test images": 5924, "test classes": 100},
)


def load_cub200(data_dir: str | None, *, cache_dir: str | None = None, seed: int = 0) -> Dataset:
    """Load CUB-200-2011 from its text files: the first 100 classes train.

    The others test. With fewer than 200 classes, the first half trains. The release's own division into train and test
    images, which mixes classes, is not used.

    Args:
        data_dir: the folder `CUB_200_2011/`, or the one that holds it.
        cache_dir: not used.
        seed: not used; the split is official.

    Raises:
        InvalidInput: the data are not there, or an annotation is wrong; it names the file and the line.
    """
    root = _RELEASE.find(data_dir)
    class_names = _read_class_names(os.path.join(root, "classes.txt"))
    num_train_classes, deviations = split_by_class_order(_RELEASE, len(class_names))

    image_rows = read_rows(os.path.join(root, "images.txt"), num_columns=2)
    class_of_image = _read_class_of_image(os.path.join(root, "image_class_labels.txt"), len(class_names))
    for place, (image_id, _) in image_rows:
        if image_id not in class_of_image:
            raise wrong_annotation(place, f"image {image_id}", "an image that image_class_labels.txt gives a class")
    places = [place for place, _ in image_rows]
    relative_paths = [path for _, (_, path) in image_rows]
    paths = existing_files(os.path.join(root, "images"), relative_paths, places)
    labels = np.array([class_of_image[image_id] for _, (image_id, _) in image_rows], np.int64)

    examples = Examples(labels=labels, paths=paths)
    trains = labels < num_train_classes
    return official_dataset(
        _RELEASE, examples.subset(trains), examples.subset(~trains), class_names, deviations=deviations
    )


def _read_class_names(path: str) -> list[str]:
    class_names: list[str] = []
    for place, (class_id, name) in read_rows(path, num_columns=2):
        expected = len(class_names) + 1
        read_integer(place, class_id, expected, expected)
        class_names.append(name)
    return class_names


def _read_class_of_image(path: str, num_classes: int) -> dict[str, int]:
    rows = read_rows(path, num_columns=2)
    return {image_id: read_integer(place, class_id, 1, num_classes) - 1 for place, (image_id, class_id) in rows}
