"""Cars196 (Stanford Cars): 16,185 photographs of 196 models of cars."""

from __future__ import annotations

import os

import numpy as np
import scipy.io

from common.data.dataset import Dataset, Examples
from common.data.official_files import (
    OfficialRelease,
    existing_files,
    official_dataset,
    read_integer,
    split_by_class_order,
    wrong_annotation,
)
from common.ops.checks import invalid

_RELEASE = OfficialRelease(
    name="cars196",
    title="Cars196",
    download=(
        "Download car_ims.tgz (1.9 GB) and cars_annos.mat, which Stanford published at "
        "http://ai.stanford.edu/~jkrause/car196/ (described at https://ai.stanford.edu/~jkrause/cars/car_dataset.html; "
        "if it does not answer, take both from https://web.archive.org or another copy), and extract car_ims/ beside "
        "cars_annos.mat."
    ),
    folder="cars196",
    required=("car_ims/", "cars_annos.mat"),
    official_counts={"train images": 8054, "train classes": 98, "test images": 8131, "test classes": 98},
)
_CORNERS = ("bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2")


def load_cars196(data_dir: str | None, *, cache_dir: str | None = None, seed: int = 0) -> Dataset:
    """Loads Cars196 from `car_ims/` and `cars_annos.mat`: the first 98 classes train, the others test.

    The release's own division into train and test images, which mixes classes, is not used. Boxes are `[left, top,
    right, bottom]` in pixels, right and bottom exclusive.

    Reference: Krause et al., "3D object representations for fine-grained categorization", 2013; the split is that of
    Oh Song et al., "Deep metric learning via lifted structured feature embedding", 2016.

    Args:
        data_dir: the folder with `car_ims/` and `cars_annos.mat`, or the one that holds it as `cars196/`.
        cache_dir: not used.
        seed: not used; the split is official.

    Raises:
        InvalidInput: the data are not there, or an annotation is wrong; it names the entry.
    """
    root = _RELEASE.find(data_dir)
    annotations, class_names = _read_annotations(os.path.join(root, "cars_annos.mat"))
    num_train_classes, deviations = split_by_class_order(_RELEASE, len(class_names))

    places = [f"cars_annos.mat, annotation {number}" for number in range(1, len(annotations["class"]) + 1)]
    labels = np.array([read_integer(*pair, 1, len(class_names)) - 1 for pair in zip(places, annotations["class"])], int)
    boxes = np.stack([annotations[corner].astype(np.int64) for corner in _CORNERS], axis=1)
    boxes[:, :2] -= 1  # the annotations count pixels from 1
    paths = existing_files(root, annotations["relative_im_path"].tolist(), places)

    examples = Examples(labels=labels, paths=paths, boxes=boxes)
    trains = labels < num_train_classes
    return official_dataset(
        _RELEASE, examples.subset(trains), examples.subset(~trains), class_names, deviations=deviations
    )


def _read_annotations(path: str) -> tuple[dict[str, np.ndarray], list[str]]:
    try:
        content = scipy.io.loadmat(path, squeeze_me=True, variable_names=("annotations", "class_names"))
    except Exception as error:  # noqa: BLE001 (a damaged file raises anything)
        raise invalid("annotation file", received=path, expected=f"the official MATLAB file ({error})") from error
    fields = ("relative_im_path", "class", *_CORNERS)
    annotations = np.atleast_1d(content.get("annotations"))
    missing = [field for field in fields if field not in (annotations.dtype.names or ())]
    if missing or "class_names" not in content:
        raise wrong_annotation(path, f"no field {', '.join(missing) or 'class_names'}", f"fields {', '.join(fields)}")
    class_names = [str(name) for name in np.atleast_1d(content["class_names"])]
    return {field: annotations[field] for field in fields}, class_names
